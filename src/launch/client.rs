//! A rank's side of PMI-1, in lock-step over the socket that the launcher left under `PMI_FD`
//! (Hydra, Intel's Hydra, Slurm's pmi2 plugin, Flux) or waits for under `PMI_PORT`.
//! Source: MPICH `src/pmi/maint/pmi-1.1.txt`, Flux RFC 13.

use super::pmi::{KEY_MAX, Lines, Message, VALUE_MAX, shorten};
use crate::sys::descriptor::{is_closed, read_some, send_all};
use std::os::fd::{AsFd, OwnedFd};

/// A rank's connection to its launcher. Dropping it without [`Client::finalize`] tells the launcher
/// that the rank failed.
pub struct Client {
    socket: OwnedFd,
    lines: Lines,
    space: String,
}

impl Client {
    /// Greets the launcher over `socket` and asks for the name of the job's key-value space.
    ///
    /// # Errors
    /// A launcher that does not speak PMI-1.1 or is gone.
    pub fn new(socket: OwnedFd) -> Result<Client, String> {
        let mut client = Client {
            socket,
            lines: Lines::default(),
            space: String::new(),
        };
        client.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let maxes = client.ask("cmd=get_maxes", "maxes")?;
        let enough = |key, need: usize| maxes.number(key).map(|n| n >= need as i32);
        if !enough("keylen_max", KEY_MAX / 2)? || !enough("vallen_max", VALUE_MAX / 8)? {
            return Err("the launcher's PMI keys and values are too short".into());
        }
        let answer = client.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = answer.get("kvsname").filter(|name| !name.is_empty());
        client.space = space
            .ok_or("the launcher gives its PMI key-value space no name")?
            .to_string();
        Ok(client)
    }

    /// Tells the launcher who we are where it gave a port in place of a socket; it answers with
    /// (rank, size).
    ///
    /// # Errors
    /// An answer that is no such thing.
    pub fn identify(socket: OwnedFd, id: i32) -> Result<(OwnedFd, i32, i32), String> {
        let mut client = Client {
            socket,
            lines: Lines::default(),
            space: String::new(),
        };
        client.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        let (mut rank, mut size) = (None, None);
        for _ in 0..3 {
            let set = client.answer("set")?;
            if set.get("size").is_some() {
                size = Some(set.number("size")?);
            }
            if set.get("rank").is_some() {
                rank = Some(set.number("rank")?);
            }
        }
        match (rank, size) {
            (Some(rank), Some(size)) => Ok((client.socket, rank, size)),
            _ => Err("the launcher's answer to initack lacks rank or size".into()),
        }
    }

    /// Which of the programs of an MPMD job this is; negative if the launcher does not know.
    ///
    /// # Errors
    /// As every question: an answer that is none, or a launcher that is gone.
    pub fn appnum(&mut self) -> Result<i32, String> {
        self.ask("cmd=get_appnum", "appnum")?.number("appnum")
    }

    /// How many ranks the launcher would run at the same time.
    ///
    /// # Errors
    /// As [`Client::appnum`].
    pub fn universe_size(&mut self) -> Result<i32, String> {
        self.ask("cmd=get_universe_size", "universe_size")?.number("size")
    }

    /// Publishes a value; others see it after the next [`Client::barrier`].
    ///
    /// # Errors
    /// As [`Client::appnum`], or a launcher that refuses.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        match self.ask(&line, "put_result")?.is_ok() {
            true => Ok(()),
            false => Err(format!("the launcher refuses PMI key {key}")),
        }
    }

    /// Reads a value; `None` if nobody has published it.
    ///
    /// # Errors
    /// As [`Client::appnum`].
    pub fn get(&mut self, key: &str) -> Result<Option<String>, String> {
        let line = format!("cmd=get kvsname={} key={key}", self.space);
        let answer = self.ask(&line, "get_result")?;
        Ok(answer.get("value").filter(|_| answer.is_ok()).map(str::to_string))
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// As [`Client::appnum`].
    pub fn barrier(&mut self) -> Result<(), String> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    /// Tells the launcher that this rank ends in order.
    ///
    /// # Errors
    /// As [`Client::appnum`].
    pub fn finalize(&mut self) -> Result<(), String> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    /// Asks the launcher to end the job with this exit code. There is no answer: the caller ends itself.
    ///
    /// # Errors
    /// A launcher that is gone.
    pub fn abort(&self, code: i32) -> Result<(), String> {
        tell(&self.socket, &format!("cmd=abort exitcode={code}"))
    }

    /// True once the launcher has closed the connection.
    pub fn is_closed(&self) -> bool {
        is_closed(self.socket.as_fd())
    }

    fn ask(&mut self, question: &str, answer: &str) -> Result<Message, String> {
        tell(&self.socket, question)?;
        let message = self.answer(answer)?;
        match message.is_ok() || answer == "get_result" || answer == "put_result" {
            true => Ok(message),
            false => Err(format!("the launcher refuses the PMI request {:?}", shorten(question))),
        }
    }

    fn answer(&mut self, name: &str) -> Result<Message, String> {
        let line = loop {
            if let Some(line) = self.lines.next_line() {
                break line?;
            }
            let mut room = [0; 2048];
            match read_some(self.socket.as_fd(), &mut room) {
                Ok(0) => return Err("the launcher closed its PMI connection".into()),
                Ok(count) => self.lines.push(&room[..count]),
                Err(e) => return Err(format!("cannot read from the launcher's PMI connection: {e}")),
            }
        };
        let message = Message::parse(&line)?;
        match message.name == name {
            true => Ok(message),
            false => Err(format!(
                "the launcher answers {:?} where PMI has {name:?}",
                shorten(&line)
            )),
        }
    }
}

/// Sends one line.
///
/// # Errors
/// A launcher that is gone.
pub(super) fn tell(socket: &impl AsFd, line: &str) -> Result<(), String> {
    send_all(socket.as_fd(), format!("{line}\n").as_bytes())
        .map_err(|e| format!("cannot write to the launcher's PMI connection: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    /// A launcher that gives these answers, whatever is asked, byte by byte, and returns the questions.
    fn scripted(answers: &[&str]) -> (OwnedFd, std::thread::JoinHandle<Vec<String>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let answers: Vec<String> = answers.iter().map(|a| format!("{a}\n")).collect();
        let server = std::thread::spawn(move || {
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            let mut asked = Vec::new();
            for answer in answers {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                asked.push(line.trim_end().to_string());
                for byte in answer.as_bytes() {
                    theirs.write_all(&[*byte]).unwrap();
                }
            }
            asked
        });
        (ours.into(), server)
    }

    const HELLO: [&str; 3] = [
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        "cmd=my_kvsname kvsname=kvs_1",
    ];

    #[test]
    fn questions_follow_the_protocol() {
        let mut answers = HELLO.to_vec();
        answers.extend([
            "cmd=put_result rc=0 msg=success",
            "cmd=barrier_out tag=0",
            "cmd=get_result rc=0 value=v",
            "cmd=get_result rc=1",
            "cmd=finalize_ack rc=0",
        ]);
        let (socket, server) = scripted(&answers);
        let mut client = Client::new(socket).unwrap();
        client.put("k", "v").unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get("k").unwrap().as_deref(), Some("v"));
        assert_eq!(client.get("nokey").unwrap(), None);
        client.finalize().unwrap();
        let asked = server.join().unwrap();
        assert_eq!(asked[3], "cmd=put kvsname=kvs_1 key=k value=v");
        assert_eq!(asked[5], "cmd=get kvsname=kvs_1 key=k");
        assert_eq!(asked[7], "cmd=finalize");
    }

    #[test]
    fn wrong_answers_are_errors() {
        for wrong in ["cmd=other", "junk", "cmd=response_to_init rc=-1"] {
            let (socket, server) = scripted(&[wrong]);
            assert!(Client::new(socket).is_err(), "{wrong}");
            server.join().unwrap();
        }
        let (socket, server) = scripted(&[]);
        server.join().unwrap();
        assert!(Client::new(socket).is_err(), "a launcher that is gone");
    }

    #[test]
    fn port_mode_learns_rank_and_size() {
        let (socket, server) = scripted(&["cmd=initack\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0"]);
        let (_, rank, size) = Client::identify(socket, 3).unwrap();
        assert_eq!((rank, size), (3, 4));
        assert_eq!(server.join().unwrap(), ["cmd=initack pmiid=3"]);
    }
}
