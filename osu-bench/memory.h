/* What the kernel says about this process's memory. Pss: pages that several processes map count by shares. */
#ifndef MEMORY_H
#define MEMORY_H
#include "common.h"

/* The line of smaps_rollup with this label, in KiB; 0 where the kernel has none. */
static inline double smaps(const char *label)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, label, strlen(label)))
            kib = strtod(line + strlen(label), NULL);
    if (file)
        fclose(file);
    return kib;
}

static inline double proportional(void) { return smaps("Pss:"); }
#endif
