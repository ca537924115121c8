//! The search budget of a strategy: moves, not time, so it needs no clock.

use std::fmt;

/// The seed of a search, its limits and a way to stop it.
pub struct SearchBudget<'a> {
    /// Seed of its random numbers: the same seed gives the same plan.
    pub seed: u64,
    /// The most moves of a search.
    pub moves: u64,
    stop: Option<Box<dyn FnMut() -> bool + 'a>>,
}

impl fmt::Debug for SearchBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Effort(seed {}, {} moves)", self.seed, self.moves)
    }
}

impl Default for SearchBudget<'_> {
    fn default() -> Self {
        SearchBudget::new(1)
    }
}

impl<'a> SearchBudget<'a> {
    /// The moves of a search without a limit: a second or so.
    pub const MOVES: u64 = 300_000;

    /// [`SearchBudget::MOVES`] with this seed.
    pub fn new(seed: u64) -> SearchBudget<'a> {
        SearchBudget { seed, moves: SearchBudget::MOVES, stop: None }
    }

    /// With another limit of moves.
    pub fn with_moves(self, moves: u64) -> SearchBudget<'a> {
        SearchBudget { moves, ..self }
    }

    /// Stops early, with the best plan so far, once `stop` says so. It is asked now and then. Only
    /// runs that it does not stop give the same plan for the same seed.
    pub fn until(self, stop: impl FnMut() -> bool + 'a) -> SearchBudget<'a> {
        SearchBudget { stop: Some(Box::new(stop)), ..self }
    }

    /// Returns whether a search that made `moves` moves has to end.
    pub fn is_over(&mut self, moves: u64) -> bool {
        moves >= self.moves || self.stop.as_mut().is_some_and(|stop| stop())
    }
}
