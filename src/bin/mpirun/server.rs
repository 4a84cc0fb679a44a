//! The launcher's side of PMI-1, for programs whose MPI library is not nearmpi. Pure: lines in, lines out.
//! Source: MPICH `src/pmi/maint/pmi-1.1.txt`, Flux RFC 13.

use mpi::launch::pmi::{KEY_MAX, Message, NAME_MAX, VALUE_MAX};
use std::collections::HashMap;

/// Values that ranks may publish, far above what any library needs.
const VALUES_MAX: usize = 1 << 20;

/// Where a rank stands, as far as its PMI requests tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Silent,
    Joined,
    Finished,
}

/// What a request leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this line to this rank.
    Reply(usize, String),
    /// End the job with this exit code.
    Abort(i32),
}

/// All that the launcher remembers for its ranks.
pub struct Server {
    space: String,
    appnums: Vec<usize>,
    /// -1: nobody has said.
    universe: i64,
    values: HashMap<String, String>,
    stages: Vec<Stage>,
    waiting: Vec<bool>,
    spawning: Vec<bool>,
}

impl Server {
    /// A server for one rank per entry of `appnums`, which say whose program it runs.
    pub fn new(space: String, appnums: Vec<usize>, universe: Option<u32>) -> Server {
        let size = appnums.len();
        let values = HashMap::from([("PMI_process_mapping".to_string(), format!("(vector,(0,1,{size}))"))]);
        let (stages, waiting, spawning) = (vec![Stage::Silent; size], vec![false; size], vec![false; size]);
        Server {
            space,
            appnums,
            universe: universe.map_or(-1, i64::from),
            values,
            stages,
            waiting,
            spawning,
        }
    }

    /// Where `rank` stands.
    pub fn stage(&self, rank: usize) -> Stage {
        self.stages[rank]
    }

    /// Takes one line of `rank`'s.
    ///
    /// # Errors
    /// A line that is no request.
    pub fn take(&mut self, rank: usize, line: &str) -> Result<Vec<Effect>, String> {
        if self.spawning[rank] {
            // The lines of a spawn request are keys and values; the last one asks for the answer.
            if line.trim() != "endcmd" {
                return Ok(vec![]);
            }
            self.spawning[rank] = false;
            return Ok(vec![Effect::Reply(
                rank,
                "cmd=spawn_result rc=1 msg=spawn_is_not_supported".into(),
            )]);
        }
        let message = Message::parse(line)?;
        let reply = |text: String| Ok(vec![Effect::Reply(rank, text)]);
        match message.name.as_str() {
            "init" => {
                self.stages[rank] = Stage::Joined;
                reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into())
            }
            "get_maxes" => reply(format!(
                "cmd=maxes kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX} rc=0"
            )),
            "get_appnum" => reply(format!("cmd=appnum appnum={} rc=0", self.appnums[rank])),
            "get_my_kvsname" => reply(format!("cmd=my_kvsname kvsname={} rc=0", self.space)),
            "get_universe_size" => reply(format!("cmd=universe_size size={} rc=0", self.universe)),
            "put" => reply(match self.put(&message) {
                Ok(()) => "cmd=put_result rc=0 msg=success".into(),
                Err(why) => format!("cmd=put_result rc=1 msg={why}"),
            }),
            "get" => reply(match message.get("key").and_then(|key| self.values.get(key)) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=1 msg=key_not_found".into(),
            }),
            "barrier_in" => Ok(self.barrier(rank)),
            "finalize" => {
                self.stages[rank] = Stage::Finished;
                reply("cmd=finalize_ack rc=0".into())
            }
            "abort" => Ok(vec![Effect::Abort(message.number("exitcode").unwrap_or(1))]),
            "spawn" => {
                self.spawning[rank] = true;
                Ok(vec![])
            }
            "publish_name" => reply("cmd=publish_result rc=1 msg=names_are_not_supported".into()),
            "unpublish_name" => reply("cmd=unpublish_result rc=1 msg=names_are_not_supported".into()),
            "lookup_name" => reply("cmd=lookup_result rc=1 msg=names_are_not_supported".into()),
            other => Err(format!("rank {rank} asks for {other:?}, which PMI-1 does not have")),
        }
    }

    fn put(&mut self, message: &Message) -> Result<(), &'static str> {
        let key = message
            .get("key")
            .filter(|k| !k.is_empty() && k.len() <= KEY_MAX)
            .ok_or("bad_key")?;
        let value = message
            .get("value")
            .filter(|v| v.len() <= VALUE_MAX)
            .ok_or("bad_value")?;
        if self.values.len() >= VALUES_MAX {
            return Err("too_many_keys");
        }
        self.values.insert(key.to_string(), value.to_string());
        Ok(())
    }

    fn barrier(&mut self, rank: usize) -> Vec<Effect> {
        self.waiting[rank] = true;
        if !self.waiting.iter().all(|&w| w) {
            return vec![];
        }
        self.waiting.fill(false);
        (0..self.waiting.len())
            .map(|r| Effect::Reply(r, "cmd=barrier_out rc=0".into()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(server: &mut Server, rank: usize, line: &str) -> String {
        match server.take(rank, line).unwrap().as_slice() {
            [Effect::Reply(to, text)] if *to == rank => text.clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn values_are_seen_after_the_barrier() {
        let mut server = Server::new("kvs".into(), vec![0, 1], Some(5));
        assert!(answer(&mut server, 1, "cmd=get_appnum").contains("appnum=1"));
        assert!(answer(&mut server, 0, "cmd=put kvsname=kvs key=k value=v").contains("rc=0"));
        assert_eq!(server.take(0, "cmd=barrier_in").unwrap(), vec![]);
        assert_eq!(server.take(1, "cmd=barrier_in").unwrap().len(), 2, "both are let go");
        assert!(answer(&mut server, 1, "cmd=get kvsname=kvs key=k").contains("value=v"));
        assert!(answer(&mut server, 1, "cmd=get kvsname=kvs key=other").contains("rc=1"));
        assert!(answer(&mut server, 1, "cmd=get kvsname=kvs key=PMI_process_mapping").contains("(vector,(0,1,2))"));
    }

    #[test]
    fn stages_and_aborts() {
        let mut server = Server::new("kvs".into(), vec![0], None);
        assert_eq!(server.stage(0), Stage::Silent);
        answer(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(server.stage(0), Stage::Joined);
        answer(&mut server, 0, "cmd=finalize");
        assert_eq!(server.stage(0), Stage::Finished);
        assert_eq!(
            server.take(0, "cmd=abort exitcode=42").unwrap(),
            vec![Effect::Abort(42)]
        );
        assert_eq!(server.take(0, "cmd=abort exitcode=x").unwrap(), vec![Effect::Abort(1)]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut server = Server::new("kvs".into(), vec![0], None);
        assert!(answer(&mut server, 0, &format!("cmd=put key={} value=v", "k".repeat(65))).contains("rc=1"));
        assert!(server.take(0, "cmd=fly").is_err() && server.take(0, "junk").is_err());
        for line in ["mcmd=spawn", "nprocs=2", "cmd=looks_like_one"] {
            assert_eq!(server.take(0, line).unwrap(), vec![], "{line}");
        }
        assert!(answer(&mut server, 0, "endcmd").contains("spawn_result rc=1"));
    }
}
