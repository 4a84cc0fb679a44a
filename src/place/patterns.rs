//! Communication matrices of five NAS benchmarks, from their published decomposition and message sizes
//! (NPB 3: LU, BT, SP, CG, MG): who exchanges which faces with whom in a whole run.

use super::matrix::Matrix;

/// Bytes of a double.
const DOUBLE: u64 = 8;

/// The classes in the order of the tables below.
const CLASSES: [&str; 6] = ["S", "W", "A", "B", "C", "D"];

/// The matrix of a benchmark by its usual name, such as `lu.B.8`.
///
/// # Errors
/// A sentence: not such a name, or a number of ranks that the benchmark does not take.
pub fn named(name: &str) -> Result<Matrix, String> {
    let wrong = || format!("{name}: not a pattern like lu.B.8 (lu, bt, sp, cg or mg; class S, W, A, B, C or D; ranks)");
    let mut parts = name.split('.');
    let (Some(kernel), Some(class), Some(ranks), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let class = CLASSES
        .iter()
        .position(|known| known.eq_ignore_ascii_case(class))
        .ok_or_else(wrong)?;
    let ranks: usize = ranks
        .parse()
        .ok()
        .filter(|ranks| (1..=1 << 14).contains(ranks))
        .ok_or_else(wrong)?;
    let root = ranks.isqrt();
    let power = |make: fn(usize, usize) -> Matrix| match ranks.is_power_of_two() {
        true => Ok(make(class, ranks)),
        false => Err(format!("{name}: {kernel} runs on a power of two of ranks")),
    };
    match kernel.to_ascii_lowercase().as_str() {
        "lu" => power(lu),
        "cg" => power(cg),
        "mg" => power(mg),
        "bt" | "sp" if root * root != ranks => Err(format!("{name}: {kernel} runs on a square number of ranks")),
        "bt" => Ok(multipartition(
            root,
            [12, 24, 64, 102, 162, 408][class],
            [60, 200, 200, 200, 200, 250][class],
            30,
            5,
        )),
        "sp" => Ok(multipartition(
            root,
            [12, 36, 64, 102, 162, 408][class],
            [100, 400, 400, 400, 400, 500][class],
            22,
            10,
        )),
        _ => Err(wrong()),
    }
}

/// LU: pencils in a plane of x times y ranks; a wavefront in each sweep sends a line of 5 unknowns for each of
/// the inner planes on to the next rank, and the right-hand side exchanges faces two deep.
fn lu(class: usize, ranks: usize) -> Matrix {
    let (n, steps): (u64, u64) = ([12, 33, 64, 102, 162, 408][class], [50, 300, 250, 250, 250, 300][class]);
    let power = ranks.ilog2();
    let x = 1 << power.div_ceil(2);
    let y = ranks / x;
    let mut matrix = Matrix::silent(ranks);
    for rank in 0..ranks {
        let (row, column) = (rank % x, rank / x);
        let face = |length: u64| steps * DOUBLE * ((n - 2) * 5 * length + 2 * 5 * length * n);
        let mut exchange = |other: usize, length: u64| {
            matrix.send(rank, other, face(length));
            matrix.send(other, rank, face(length));
        };
        if row + 1 < x {
            exchange(rank + 1, n / y as u64);
        }
        if column + 1 < y {
            exchange(rank + x, n / x as u64);
        }
    }
    matrix
}

/// BT and SP: p ranks squared, each with p cells on a diagonal of the cube; every cell sends its faces, two deep and 5
/// unknowns, and in each direction a line solve goes `forward` numbers a point ahead and `backward` numbers back.
fn multipartition(p: usize, n: u64, steps: u64, forward: u64, backward: u64) -> Matrix {
    let mut matrix = Matrix::silent(p * p);
    let face = (n / p as u64) * (n / p as u64) * (p as u64 - 1) * steps * DOUBLE;
    for rank in 0..p * p {
        let (i, j) = (rank % p, rank / p);
        let at = |i: usize, j: usize| i % p + p * (j % p);
        let (less, more) = (p - 1, 1);
        let directions = [
            (at(i + more, j), at(i + less, j)),
            (at(i, j + more), at(i, j + less)),
            (at(i + less, j + more), at(i + more, j + less)),
        ];
        for (next, last) in directions {
            matrix.send(rank, next, face * (2 * 5 + forward));
            matrix.send(rank, last, face * (2 * 5 + backward));
        }
    }
    matrix
}

/// CG: rows times columns of ranks; each product of matrix and vector is summed over the row by pairwise
/// exchange, then swapped with the transposed rank; dot products sum one number in the same way.
fn cg(class: usize, ranks: usize) -> Matrix {
    let (n, steps): (u64, u64) = (
        [1400, 7000, 14000, 75000, 150_000, 1_500_000][class],
        [15, 15, 15, 75, 75, 100][class],
    );
    let rows = 1 << (ranks.ilog2() / 2);
    let columns = ranks / rows;
    let (segment, square) = (n / rows as u64, rows == columns);
    let products = steps * 26;
    let mut matrix = Matrix::silent(ranks);
    for rank in 0..ranks {
        let (row, column) = (rank / columns, rank % columns);
        let mut stride = columns / 2;
        while stride > 0 {
            let vector = if square || stride > 1 { segment } else { segment / 2 };
            matrix.send(
                rank,
                row * columns + (column ^ stride),
                DOUBLE * (products * vector + 2 * products),
            );
            stride /= 2;
        }
        let transposed = match square {
            true => rank % rows * rows + rank / rows,
            false => 2 * (rank / 2 % rows * rows + rank / 2 / rows) + rank % 2,
        };
        let part = if square { segment } else { segment / 2 };
        matrix.send(rank, transposed, DOUBLE * products * part);
    }
    matrix
}

/// MG: a periodic grid of ranks in three dimensions; on every level of the V-cycle three exchanges of faces.
/// On levels with fewer points than ranks in a dimension only every so many ranks take part.
fn mg(class: usize, ranks: usize) -> Matrix {
    let (n, steps): (u64, u64) = ([32, 128, 256, 256, 512, 1024][class], [4, 4, 4, 20, 20, 50][class]);
    let power = ranks.ilog2();
    let x = 1usize << (power / 3);
    let y = 1usize << ((power - power / 3) / 2);
    let grid = [x, y, ranks / x / y];
    let mut matrix = Matrix::silent(ranks);
    let mut points = n;
    while points >= 2 {
        let stride = grid.map(|ranks| (ranks as u64 / points).max(1) as usize);
        let local = |axis: usize| (points / grid[axis] as u64).max(1) + 2;
        for rank in 0..ranks {
            let place = [rank % x, rank / x % y, rank / x / y];
            if (0..3).any(|axis| !place[axis].is_multiple_of(stride[axis])) {
                continue;
            }
            for axis in 0..3 {
                let face: u64 = (0..3).filter(|other| *other != axis).map(local).product();
                for step in [stride[axis], grid[axis] - stride[axis]] {
                    let mut to = place;
                    to[axis] = (to[axis] + step) % grid[axis];
                    matrix.send(rank, to[0] + x * (to[1] + y * to[2]), 3 * steps * DOUBLE * face);
                }
            }
        }
        points /= 2;
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(matrix: &Matrix, rank: usize) -> Vec<usize> {
        (0..matrix.ranks())
            .filter(|&other| matrix.between(rank, other) > 0)
            .collect()
    }

    #[test]
    fn lu_has_the_neighbours_of_figure_4() {
        let matrix = named("lu.B.8").unwrap();
        assert_eq!(partners(&matrix, 0), [1, 4]);
        assert_eq!(partners(&matrix, 5), [1, 4, 6]);
        assert!(
            matrix.between(0, 1) > matrix.between(0, 4),
            "the heavy neighbour is the next rank"
        );
    }

    #[test]
    fn partners_are_those_of_the_benchmarks() {
        assert_eq!(partners(&named("bt.A.9").unwrap(), 4), [1, 2, 3, 5, 6, 7]);
        assert_eq!(partners(&named("cg.A.16").unwrap(), 1), [0, 3, 4]);
        assert_eq!(partners(&named("mg.B.64").unwrap(), 0), [1, 2, 3, 4, 8, 12, 16, 32, 48]);
        assert_eq!(partners(&named("sp.S.1").unwrap(), 0), [0; 0]);
        for name in ["cg.B.8", "mg.C.8", "bt.B.4", "lu.C.64"] {
            let matrix = named(name).unwrap();
            assert!(
                (0..matrix.ranks()).all(|rank| !partners(&matrix, rank).is_empty()),
                "{name}"
            );
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["lu", "ft.B.8", "lu.X.8", "lu.B.x", "lu.B.8.9", "lu.B.0"] {
            assert!(named(name).unwrap_err().contains("not a pattern"), "{name}");
        }
        assert!(named("lu.B.6").unwrap_err().contains("power of two"));
        assert!(named("bt.B.8").unwrap_err().contains("square"));
    }
}
