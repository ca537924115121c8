//! Limits of traffic: of each node, and of all nodes together.

/// Limits of traffic in bytes a second; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Limit of each node, for sending and for receiving.
    pub node: u64,
    /// Limit of all nodes together, for sending.
    pub total: u64,
}

impl RateLimits {
    /// The limit of each node, when the busiest one carries this part of all that is sent.
    pub fn of_node(&self, concentration: Option<f64>) -> u64 {
        // Without a plan the worst: one node carries everything.
        let share = concentration.unwrap_or(1.0).clamp(0.0, 1.0);
        let share = match self.total {
            0 => 0,
            total => ((total as f64 * share) as u64).max(1),
        };
        match (self.node, share) {
            (0, rate) | (rate, 0) => rate,
            (a, b) => a.min(b),
        }
    }
}
