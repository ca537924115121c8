//! Rows of a matrix of which one follows from the others without products.
//!
//! The first parity of most codes is the plain sum of the data. So lost chunks, of which there are
//! some among these, have a plain sum as well: one of them is the sum of the others and of what is
//! there, and needs none of its own products.

use kiln_gf::Matrix;

/// More rows than this are not searched: every set of them is looked at.
const ROWS_MAX: usize = 6;

/// A row that is the sum of other rows and of sources.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Relation {
    pub row: usize,
    /// The other rows.
    pub others: Vec<usize>,
    /// True for each source, by column, that is taken.
    plain: Vec<bool>,
}

impl Relation {
    /// The relation of a matrix's rows that saves most products; none where that takes more
    /// additions than it saves products.
    pub(super) fn of(matrix: &Matrix) -> Option<Relation> {
        let rows = matrix.rows();
        if rows > ROWS_MAX {
            return None;
        }
        let products = |&row: &usize| matrix.row(row).iter().filter(|&&factor| factor > 1).count();
        let relation = |set: usize| {
            let members = || (0..rows).filter(move |row| set >> row & 1 == 1);
            let sum = |column| members().fold(0, |sum, row| sum ^ matrix.at(row, column));
            let sums: Vec<u8> = (0..matrix.cols()).map(sum).collect();
            let row = members().max_by_key(products)?;
            let others: Vec<usize> = members().filter(|&other| other != row).collect();
            let gain = products(&row).checked_sub(others.len()).filter(|&gain| gain > 0)?;
            let plain = sums.iter().map(|&sum| sum == 1).collect();
            let found = sums.iter().all(|&sum| sum < 2);
            found.then_some((gain, Relation { row, others, plain }))
        };
        let found = (1_usize..1 << rows).filter_map(relation);
        found.max_by_key(|&(gain, _)| gain).map(|(_, relation)| relation)
    }
}

/// A matrix's rows as blocks compute them.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub matrix: &'a Matrix,
    pub relation: Option<&'a Relation>,
}

impl Rows<'_> {
    /// Returns what a column is multiplied with for a row; of the row that follows from others, for
    /// what is added to these.
    pub(super) fn at(&self, row: usize, column: usize) -> u8 {
        match self.relation {
            Some(relation) if relation.row == row => u8::from(relation.plain[column]),
            _ => self.matrix.at(row, column),
        }
    }

    /// All rows, the one that follows from others last.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> + use<> {
        let last = self.relation.map(|relation| relation.row);
        (0..self.matrix.rows()).filter(move |&row| Some(row) != last).chain(last)
    }

    /// The rows that are added to what columns give for a row.
    pub(super) fn others(&self, row: usize) -> &[usize] {
        match self.relation {
            Some(relation) if relation.row == row => &relation.others,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_follows_from_the_others_where_their_sum_is_plain() -> Result<(), kiln_gf::GfError> {
        let found = |rows: &[[u8; 4]]| {
            let matrix = Matrix::new(rows.len(), 4, rows.concat())?;
            Ok::<_, kiln_gf::GfError>(Relation::of(&matrix))
        };
        // Of three rows the sum is 1 0 1 1; the third has most products.
        let rows = [[1, 5, 1, 9], [1, 1, 4, 4], [1, 4, 4, 12]];
        let plain = vec![true, false, true, true];
        assert_eq!(found(&rows)?, Some(Relation { row: 2, others: vec![0, 1], plain }));
        // As many additions as products, no plain sum, and a row that is plain as it is.
        assert_eq!(found(&[[1, 2, 0, 1], [1, 3, 1, 1]])?, None);
        assert_eq!(found(&[[7, 5, 1, 9], [6, 4, 3, 4]])?, None);
        assert_eq!(found(&[[1, 1, 1, 1], [6, 4, 3, 4]])?, None);
        Ok(())
    }

    #[test]
    fn the_row_is_made_of_what_the_relation_says() -> Result<(), kiln_gf::GfError> {
        let matrix = Matrix::new(2, 4, vec![7, 5, 3, 9, 6, 5, 2, 8])?;
        let relation = Relation::of(&matrix);
        let rows = Rows { matrix: &matrix, relation: relation.as_ref() };
        let order: Vec<usize> = rows.in_order().collect();
        assert_eq!(order.last(), relation.as_ref().map(|relation| &relation.row));
        for row in 0..2 {
            for column in 0..4 {
                let others = rows.others(row).iter().map(|&other| matrix.at(other, column));
                let made = others.fold(rows.at(row, column), |sum, factor| sum ^ factor);
                assert_eq!(made, matrix.at(row, column), "row {row}, column {column}");
            }
        }
        Ok(())
    }
}
