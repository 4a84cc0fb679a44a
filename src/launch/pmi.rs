//! The lines of PMI-1: `cmd=NAME key=value ...`, ended by a newline, keys in any order, unknown keys ignored.
//! A read may bring half a line or several; whatever comes is bounded and checked.
//! Source: MPICH `src/pmi/maint/pmi-1.1.txt`, Flux RFC 13.

/// The longest line taken: far above a key of 64 and a value of 1024 bytes.
pub const LINE_LIMIT: usize = 16 * 1024;
/// What our server offers, and the least a client needs: bytes of a key-value space's name.
pub const NAME_MAX: usize = 256;
/// Bytes of a key.
pub const KEY_MAX: usize = 64;
/// Bytes of a value.
pub const VALUE_MAX: usize = 1024;

/// Collects bytes and gives them back as lines.
#[derive(Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Adds what a read brought.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole line without its newline; `None` until one is there.
    ///
    /// # Errors
    /// A line that is too long or no text.
    pub fn next_line(&mut self) -> Option<Result<String, String>> {
        let Some(end) = self.pending.iter().position(|&b| b == b'\n') else {
            return (self.pending.len() > LINE_LIMIT).then(|| Err(self.refuse()));
        };
        let line: Vec<u8> = self.pending.drain(..=end).take(end).collect();
        if line.len() > LINE_LIMIT {
            return Some(Err(self.refuse()));
        }
        Some(String::from_utf8(line).map_err(|_| "a PMI line is not text".to_string()))
    }

    fn refuse(&mut self) -> String {
        self.pending.clear();
        format!("a PMI line is longer than {LINE_LIMIT} bytes")
    }
}

/// One line, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// What is asked or answered: the value of `cmd` (or `mcmd`, the first line of a longer request).
    pub name: String,
    fields: Vec<(String, String)>,
}

impl Message {
    /// Takes a line apart.
    ///
    /// # Errors
    /// A line without a command.
    pub fn parse(line: &str) -> Result<Message, String> {
        let mut name = None;
        let mut fields = Vec::new();
        for (key, value) in line.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
            match key {
                "cmd" | "mcmd" if name.is_none() => name = Some(value.to_string()),
                _ => fields.push((key.to_string(), value.to_string())),
            }
        }
        match name {
            Some(name) => Ok(Message { name, fields }),
            None => Err(format!("a PMI line has no command: {:?}", shorten(line))),
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of `key` as a number.
    ///
    /// # Errors
    /// When it is missing or no such number.
    pub fn number(&self, key: &str) -> Result<i32, String> {
        let value = self
            .get(key)
            .ok_or_else(|| format!("PMI answer {:?} lacks {key:?}", self.name))?;
        value
            .parse()
            .map_err(|_| format!("PMI answer {:?}: {key}={:?} is not a number", self.name, shorten(value)))
    }

    /// True if the answer says success; an answer without `rc` does.
    pub fn is_ok(&self) -> bool {
        self.get("rc").is_none_or(|rc| rc == "0")
    }
}

/// True if every one of `size` ranks is on one host, by a process mapping as Hydra and Slurm write it:
/// `(vector,(first node,nodes,ranks each),...)`, repeated until every rank has a node.
///
/// # Errors
/// A mapping that cannot be read.
pub fn on_one_host(mapping: &str, size: u32) -> Result<bool, String> {
    let wrong = || format!("the launcher's process mapping cannot be read: {:?}", shorten(mapping));
    let inner = mapping
        .trim()
        .strip_prefix("(vector")
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(wrong)?;
    let mut placed = 0u64;
    let mut first_host = None;
    for block in inner.split('(').skip(1) {
        let block = block.trim_end_matches([',', ' ']).strip_suffix(')').ok_or_else(wrong)?;
        let numbers: Vec<u64> = block
            .split(',')
            .map(|n| n.trim().parse::<u32>().map(u64::from))
            .collect::<Result<_, _>>()
            .map_err(|_| wrong())?;
        let &[node, nodes, each] = numbers.as_slice() else {
            return Err(wrong());
        };
        if nodes == 0 || each == 0 {
            continue;
        }
        let several = nodes > 1 && placed + each < u64::from(size);
        if several || *first_host.get_or_insert(node) != node {
            return Ok(false);
        }
        placed += nodes * each;
        if placed >= u64::from(size) {
            return Ok(true);
        }
    }
    if placed == 0 { Err(wrong()) } else { Ok(true) }
}

/// `text`, cut to what fits into an error sentence.
pub fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_come_whole_from_pieces() {
        let mut lines = Lines::default();
        lines.push(b"cmd=barr");
        assert!(lines.next_line().is_none());
        lines.push(b"ier_out\ncmd=maxes keylen_max=64\ncmd=fin");
        assert_eq!(lines.next_line().unwrap().unwrap(), "cmd=barrier_out");
        assert_eq!(lines.next_line().unwrap().unwrap(), "cmd=maxes keylen_max=64");
        assert!(lines.next_line().is_none());
        lines.push(b"alize_ack\n");
        assert_eq!(lines.next_line().unwrap().unwrap(), "cmd=finalize_ack");
    }

    #[test]
    fn junk_is_refused() {
        let mut lines = Lines::default();
        lines.push(&[0xff, 0xfe, b'\n']);
        assert!(lines.next_line().unwrap().is_err());
        lines.push(&vec![b'x'; LINE_LIMIT + 1]);
        assert!(lines.next_line().unwrap().is_err());
        assert!(lines.next_line().is_none(), "the long line is gone");
        assert!(Message::parse("").is_err());
        assert!(Message::parse("rc=0 value=3").is_err());
    }

    #[test]
    fn messages_are_taken_apart() {
        let message = Message::parse("rc=0 cmd=get_result  value=(vector,(0,1,2)) junk msg=a=b").unwrap();
        assert_eq!(message.name, "get_result");
        assert_eq!(message.get("value"), Some("(vector,(0,1,2))"));
        assert_eq!(message.get("msg"), Some("a=b"));
        assert_eq!(message.get("junk"), None);
        assert!(message.is_ok());
        assert!(message.number("value").is_err());
        assert_eq!(message.number("rc"), Ok(0));
        assert!(!Message::parse("cmd=x rc=-1").unwrap().is_ok());
    }

    #[test]
    fn mappings_tell_hosts() {
        assert_eq!(on_one_host("(vector,(0,1,4))", 4), Ok(true));
        assert_eq!(on_one_host("(vector,(0,1,1))", 2), Ok(true), "the pattern repeats");
        assert_eq!(on_one_host("(vector,(0,2,1))", 2), Ok(false));
        assert_eq!(
            on_one_host("(vector,(0,2,4))", 3),
            Ok(true),
            "the second host has no rank"
        );
        assert_eq!(on_one_host("(vector,(0,1,2),(1,1,2))", 4), Ok(false));
        assert_eq!(on_one_host("(vector,(1,1,2),(1,1,2))", 4), Ok(true));
        assert_eq!(on_one_host("(vector, (0,1,2))", 2), Ok(true));
        for junk in [
            "",
            "(vector)",
            "(vector,(0,1))",
            "(vector,(0,1,x))",
            "(vector,(0,0,0))",
            "(vector,(-1,1,1))",
        ] {
            assert!(on_one_host(junk, 2).is_err(), "{junk}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "[(),a-z0-9=\n ]{0,80}") {
            let mut lines = Lines::default();
            lines.push(&bytes);
            lines.push(text.as_bytes());
            while let Some(line) = lines.next_line() {
                if let Ok(line) = line {
                    let _ = Message::parse(&line);
                }
            }
            let _ = on_one_host(&format!("(vector{text})"), 4);
        }
    }
}
