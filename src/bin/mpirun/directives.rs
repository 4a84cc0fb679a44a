//! What Open MPI says in lists of words: `--output` and `--display`.

use crate::arguments::Output;

/// Does to `output` what `--output text` asks for.
///
/// # Errors
/// A sentence about a word that is not known or cannot be done.
pub fn output(text: &str, output: &mut Output) -> Result<(), String> {
    for word in text.split(',') {
        let (word, qualifiers) = word.split_once(':').unwrap_or((word, ""));
        // Nothing is copied, and nothing is waited for.
        let odd = qualifiers
            .split(':')
            .find(|qualifier| !["", "nocopy", "raw"].contains(qualifier));
        if let Some(odd) = odd {
            return Err(format!("-output {text}: {odd:?} is not nocopy or raw"));
        }
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let path = value.replace('%', "%%");
        match key {
            "tag" => output.tag = "[1,%r]<%s>: ".into(),
            "rank" => output.tag = "[%r]<%s>: ".into(),
            "timestamp" => output.has_time = true,
            "merge" | "merge-stderr-to-stdout" => output.merges = true,
            "file" | "filename" if !path.is_empty() => {
                output.out = Some(format!("{path}.%r.out"));
                output.err = Some(format!("{path}.%r.err"));
            }
            "dir" | "directory" if !path.is_empty() => output.fill_folder(value),
            "tag-detailed" | "tag-fullname" | "xml" => {
                return Err(format!(
                    "-output {text}: {key} cannot be had here; tag and rank can, and what -prepend-pattern says"
                ));
            }
            _ => {
                return Err(format!(
                    "-output {text}: {word:?} is none of tag, rank, timestamp, merge-stderr-to-stdout, file=NAME and dir=DIR"
                ));
            }
        }
    }
    Ok(())
}

/// Whether `--display text` asks for the places of the ranks.
///
/// # Errors
/// A sentence about a word that is not known.
pub fn shows_places(text: &str) -> Result<bool, String> {
    let mut places = false;
    for word in text.split(',') {
        match word.split([':', '=']).next().unwrap_or_default() {
            "bind" | "bindings" | "map" | "map-devel" => places = true,
            // Of a single machine there is nothing to say.
            "allocation" | "topo" | "cpus" => {}
            _ => {
                return Err(format!(
                    "-display {text}: {word:?} is not bind or map (nearmpi-topo shows the machine)"
                ));
            }
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(text: &str) -> Result<Output, String> {
        let mut result = Output::default();
        output(text, &mut result).map(|()| result)
    }

    #[test]
    fn output_is_as_open_mpi_has_it() {
        assert_eq!(done("tag").unwrap().tag, "[1,%r]<%s>: ");
        let all = done("rank,timestamp,merge-stderr-to-stdout,file=a%b:nocopy").unwrap();
        assert!(all.has_time && all.merges && all.tag == "[%r]<%s>: ");
        assert_eq!(all.out.as_deref(), Some("a%%b.%r.out"));
        assert_eq!(all.err.as_deref(), Some("a%%b.%r.err"));
        assert_eq!(done("dir=d").unwrap().out.as_deref(), Some("d/1/rank.%r/stdout"));
        for wrong in ["", "tags", "xml", "tag-detailed", "file=", "dir", "tag:file=x", "tag,,"] {
            assert!(done(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn places_are_shown_where_asked_for() {
        assert_eq!(shows_places("allocation,map:parsable"), Ok(true));
        assert_eq!(shows_places("bind"), Ok(true));
        assert_eq!(shows_places("topo=box"), Ok(false));
        assert!(shows_places("mood").unwrap_err().contains("mood"));
    }
}
