//! Sums of products that are made by one instruction, with maps of the factors.

use super::super::target::{Machine, Maps, NoCode, Term};
use super::{Allocator, ONE, Place, Step};
use crate::block::{Factor, Value};

impl<M: Machine> Allocator<'_, M> {
    /// A sum, two terms at a time; nothing for a sum of nothing.
    pub(super) fn sum_by_maps(
        &mut self,
        maps: &dyn Maps<M>,
        terms: &[(Value, Factor)],
        at: usize,
    ) -> Step<Option<usize>> {
        let mut terms = terms.to_vec();
        let mut sum = self.dying(&mut terms, at)?;
        // Memory can only be the last operand of an instruction: what is in registers goes first.
        terms.sort_by_key(|&(term, factor)| (self.in_memory(term, factor), factor == ONE));
        let mut terms = terms.into_iter();
        while let Some(first) = terms.next() {
            let (sum_now, second) = (sum, terms.next());
            sum = Some(match (sum_now, second) {
                (None, None) => self.product(maps, first, at)?,
                (None, Some(second)) => self.two(maps, first, second, at)?,
                (Some(sum), None) => {
                    let term = self.term(maps, first, at)?;
                    self.xor(sum, sum, &term)?;
                    self.done(first.0, &term, at);
                    sum
                }
                (Some(sum), Some(second)) => {
                    self.three(maps, sum, first, second, at)?;
                    sum
                }
            });
        }
        Ok(sum)
    }

    /// The first term alone: a product, in a register that becomes the sum.
    fn product(
        &mut self,
        maps: &dyn Maps<M>,
        (value, factor): (Value, Factor),
        at: usize,
    ) -> Step<usize> {
        let map = self.map(factor)?;
        let from = self.register(value)?;
        let to = self.product_register(value, from, at)?;
        match factor {
            ONE => self.target.copy(to, from, &mut self.code)?,
            _ => self.multiply(maps, to, from, (factor, map), at)?,
        }
        Ok(to)
    }

    /// The sum of the first two terms, in a register that becomes the sum.
    fn two(
        &mut self,
        maps: &dyn Maps<M>,
        a: (Value, Factor),
        b: (Value, Factor),
        at: usize,
    ) -> Step<usize> {
        let first = self.term(maps, a, at)?;
        let second = self.term(maps, b, at)?;
        let Term::Register(left) = first else {
            // Both are in memory, or the order above has put a register first.
            let left = self.free_register()?;
            if let Term::Memory(place) = first {
                self.load(left, place)?;
            }
            self.xor(left, left, &second)?;
            self.done(a.0, &first, at);
            self.done(b.0, &second, at);
            self.lock(left);
            return Ok(left);
        };
        self.done(a.0, &first, at);
        self.done(b.0, &second, at);
        let sum = match self.holds[left] {
            None => left,
            Some(_) => self.free_register()?,
        };
        self.lock(sum);
        self.xor(sum, left, &second)?;
        Ok(sum)
    }

    fn three(
        &mut self,
        maps: &dyn Maps<M>,
        sum: usize,
        a: (Value, Factor),
        b: (Value, Factor),
        at: usize,
    ) -> Step<()> {
        let first = self.term(maps, a, at)?;
        let second = self.term(maps, b, at)?;
        match (&first, &second) {
            (Term::Register(a), b) | (b, Term::Register(a)) => {
                maps.three(sum, *a, b, &mut self.code)?;
            }
            _ => {
                self.xor(sum, sum, &first)?;
                self.xor(sum, sum, &second)?;
            }
        }
        self.done(a.0, &first, at);
        self.done(b.0, &second, at);
        Ok(())
    }

    /// Makes a term ready: a product lies in a register that holds nothing else.
    fn term(
        &mut self,
        maps: &dyn Maps<M>,
        (value, factor): (Value, Factor),
        at: usize,
    ) -> Step<Term<M>> {
        if self.in_memory(value, factor)
            && let Place::Operand(operand) = self.place[value.0 as usize]
        {
            return Ok(Term::Memory(self.operand(operand)?));
        }
        let map = self.map(factor)?;
        let from = self.register(value)?;
        if factor == ONE {
            return Ok(Term::Register(from));
        }
        let to = self.product_register(value, from, at)?;
        self.multiply(maps, to, from, (factor, map), at)?;
        Ok(Term::Register(to))
    }

    /// The register for a product of a value: its own if this is its last use.
    fn product_register(&mut self, value: Value, from: usize, at: usize) -> Step<usize> {
        let last = self.uses[value.0 as usize] == [at];
        if !last {
            let to = self.free_register()?;
            self.used(value, at);
            self.locked.retain(|&locked| locked != from);
            self.lock(to);
            return Ok(to);
        }
        self.used(value, at);
        self.lock(from);
        Ok(from)
    }

    pub(super) fn kept_map(&self, index: usize) -> usize {
        self.target.registers() - self.kept.len() + index
    }

    /// The register with the map of a factor, locked until it is used; none where it is not in one.
    fn map(&mut self, factor: Factor) -> Step<Option<usize>> {
        Ok(match factor {
            Factor::Given(index) => Some(self.register(self.map_value(index))?),
            Factor::Fixed(factor) => {
                let kept = self.kept.iter().position(|&kept| kept == factor);
                kept.map(|index| self.kept_map(index))
            }
        })
    }

    fn multiply(
        &mut self,
        maps: &dyn Maps<M>,
        to: usize,
        from: usize,
        (factor, map): (Factor, Option<usize>),
        at: usize,
    ) -> Step<()> {
        let place = match (map, factor) {
            (Some(map), _) => Term::Register(map),
            (None, Factor::Fixed(factor)) => Term::Memory(maps.map(factor)),
            (None, Factor::Given(_)) => return Err(NoCode),
        };
        maps.multiply(to, from, &place, &mut self.code)?;
        if let (Some(map), Factor::Given(index)) = (map, factor) {
            self.locked.retain(|&locked| locked != map);
            self.used(self.map_value(index), at);
        }
        Ok(())
    }
}
