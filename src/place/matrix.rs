//! A communication matrix: how many bytes each rank sends to each other one.
//!
//! The file is the JSON that `mpirun --profile` writes; of it `ranks` and `matrix.bytes` are read.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// Bytes by sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    bytes: Vec<Vec<u64>>,
}

impl Matrix {
    /// Of `ranks` ranks that are silent.
    pub fn silent(ranks: usize) -> Matrix {
        Matrix {
            bytes: vec![vec![0; ranks]; ranks],
        }
    }

    /// Reads a file, or `run.json` in a folder of `mpirun --profile`.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(path: &Path) -> Result<Matrix, String> {
        let path = if path.is_dir() {
            path.join("run.json")
        } else {
            path.to_path_buf()
        };
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Matrix::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Takes the JSON apart.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Matrix, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        let rows = json.pointer("/matrix/bytes").and_then(Value::as_array);
        let rows = rows.ok_or("no communication matrix: \"matrix\": {\"bytes\": [[...]]} is missing")?;
        let ranks = match json.get("ranks") {
            None => rows.len() as u64,
            Some(ranks) => ranks
                .as_u64()
                .ok_or_else(|| format!("\"ranks\" is {ranks}, not a number of ranks"))?,
        };
        if ranks == 0 || rows.len() as u64 != ranks {
            return Err(format!("the matrix has {} rows for {ranks} ranks", rows.len()));
        }
        let row = |(rank, row): (usize, &Value)| -> Result<Vec<u64>, String> {
            let numbers = row
                .as_array()
                .ok_or_else(|| format!("row {rank} of the matrix is no list"))?;
            if numbers.len() != rows.len() {
                return Err(format!(
                    "row {rank} of the matrix has {} numbers for {ranks} ranks",
                    numbers.len()
                ));
            }
            let number = |value: &Value| {
                value
                    .as_u64()
                    .ok_or_else(|| format!("row {rank} of the matrix has {value}, not a number of bytes"))
            };
            numbers.iter().map(number).collect()
        };
        let bytes = rows.iter().enumerate().map(row).collect::<Result<_, _>>()?;
        Ok(Matrix { bytes })
    }

    /// The JSON that [`Matrix::parse`] takes.
    pub fn json(&self) -> String {
        let rows: Vec<String> = self.bytes.iter().map(|row| format!("    {row:?}")).collect();
        let rows = rows.join(",\n");
        format!(
            "{{\n  \"ranks\": {},\n  \"matrix\": {{ \"bytes\": [\n{rows}\n  ] }}\n}}\n",
            self.ranks()
        )
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes from `a` to `b`.
    pub fn sent(&self, a: usize, b: usize) -> u64 {
        self.bytes[a][b]
    }

    /// Bytes that `a` and `b` exchange, both ways.
    pub fn between(&self, a: usize, b: usize) -> u64 {
        if a == b {
            0
        } else {
            self.bytes[a][b].saturating_add(self.bytes[b][a])
        }
    }

    /// `a` sends `bytes` more to `b`.
    pub fn send(&mut self, a: usize, b: usize, bytes: u64) {
        if a != b {
            self.bytes[a][b] = self.bytes[a][b].saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut matrix = Matrix::silent(3);
        matrix.send(0, 2, 1 << 40);
        matrix.send(2, 0, 1);
        matrix.send(1, 1, 99);
        assert_eq!(Matrix::parse(&matrix.json()).unwrap(), matrix);
        assert_eq!((matrix.between(0, 2), matrix.between(1, 1)), ((1 << 40) + 1, 0));
    }

    #[test]
    fn what_is_no_matrix_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no JSON"),
            ("{}", "\"matrix\""),
            (
                r#"{"ranks": 3, "matrix": {"bytes": [[0,1],[1,0]]}}"#,
                "2 rows for 3 ranks",
            ),
            (
                r#"{"ranks": 2, "matrix": {"bytes": [[0,1],[1]]}}"#,
                "row 1 of the matrix has 1 numbers for 2",
            ),
            (r#"{"matrix": {"bytes": []}}"#, "0 rows"),
            (r#"{"matrix": {"bytes": [[-1]]}}"#, "-1"),
            (r#"{"ranks": "x", "matrix": {"bytes": [[0]]}}"#, "\"x\""),
            (r#"{"matrix": {"bytes": [7]}}"#, "no list"),
        ] {
            let error = Matrix::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
