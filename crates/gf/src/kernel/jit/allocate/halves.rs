//! Sums of products that tables give for the halves of a byte.
//!
//! A value that is multiplied is cut into halves once, which then take its part: they are values
//! like others. One that is only doubled is not cut.

use super::super::target::{Halves, Machine, NoCode, Term};
use super::{Allocator, ONE, Place, Step};
use crate::block::{Block, Factor, Op, Value};

/// Returns which values have no products but by two.
pub(super) fn doubled(block: &Block) -> Vec<bool> {
    let mut doubled = vec![true; block.values()];
    for op in block.ops() {
        let Op::Sum { terms } = op else { continue };
        for &(value, factor) in terms {
            if factor != ONE && factor != Factor::Fixed(2) {
                doubled[value.0 as usize] = false;
            }
        }
    }
    doubled
}

/// A sum in the making.
enum Sum {
    Nothing,
    /// One term, in a register that something else still needs.
    Term(usize, Value),
    Own(usize),
}

impl<M: Machine> Allocator<'_, M> {
    /// A sum, a term at a time; nothing for a sum of nothing.
    pub(super) fn sum_by_halves(
        &mut self,
        halves: &dyn Halves<M>,
        terms: &[(Value, Factor)],
        at: usize,
    ) -> Step<Option<usize>> {
        let mut terms = terms.to_vec();
        let mut sum = self.dying(&mut terms, at)?.map_or(Sum::Nothing, Sum::Own);
        // Memory can only be the last operand of an instruction: what is in registers goes first.
        terms.sort_by_key(|&(term, factor)| (self.in_memory(term, factor), factor != ONE));
        for (value, factor) in terms {
            sum = match factor {
                ONE if self.in_memory(value, factor) => self.add_memory(sum, value, at)?,
                ONE => self.add(sum, value, at)?,
                _ => self.add_product(halves, sum, (value, factor), at)?,
            };
        }
        Ok(match sum {
            Sum::Nothing => None,
            Sum::Own(register) => Some(register),
            Sum::Term(from, value) => {
                let to = self.free_register()?;
                self.target.copy(to, from, &mut self.code)?;
                self.release(from, value, at);
                Some(to)
            }
        })
    }

    /// Adds a value that has a register, or gets one.
    fn add(&mut self, sum: Sum, value: Value, at: usize) -> Step<Sum> {
        let from = self.register(value)?;
        Ok(match sum {
            Sum::Nothing if self.uses[value.0 as usize] == [at] => {
                self.used(value, at);
                Sum::Own(from)
            }
            Sum::Nothing => Sum::Term(from, value),
            Sum::Term(first, known) => {
                let to = self.own_register()?;
                self.xor(to, first, &Term::Register(from))?;
                self.release(first, known, at);
                self.release(from, value, at);
                Sum::Own(to)
            }
            Sum::Own(to) => {
                self.xor(to, to, &Term::Register(from))?;
                self.release(from, value, at);
                Sum::Own(to)
            }
        })
    }

    /// Adds a value that is used nowhere else, from its operand.
    fn add_memory(&mut self, sum: Sum, value: Value, at: usize) -> Step<Sum> {
        let Place::Operand(operand) = self.place[value.0 as usize] else { return Err(NoCode) };
        let to = match sum {
            Sum::Own(to) => to,
            _ => self.own_register()?,
        };
        let place = self.operand(operand)?;
        match sum {
            Sum::Nothing => self.load(to, place)?,
            Sum::Own(_) => self.xor(to, to, &Term::Memory(place))?,
            Sum::Term(first, known) => {
                self.xor(to, first, &Term::Memory(place))?;
                self.release(first, known, at);
            }
        }
        self.used(value, at);
        Ok(Sum::Own(to))
    }

    fn add_product(
        &mut self,
        halves: &dyn Halves<M>,
        sum: Sum,
        (value, factor): (Value, Factor),
        at: usize,
    ) -> Step<Sum> {
        let used: Vec<(usize, Value)> = match self.by_halves(value, factor) {
            true => self.halves(halves, value, at)?,
            false => vec![(self.register(value)?, value)],
        };
        let (to, add) = match sum {
            Sum::Own(to) => (to, Some(to)),
            Sum::Term(first, _) => (self.own_register()?, Some(first)),
            Sum::Nothing => (self.own_register()?, None),
        };
        match used[..] {
            [(low, _), (high, _)] => {
                let tables = match factor {
                    Factor::Fixed(factor) => halves.tables(factor),
                    Factor::Given(i) => halves.given_tables(self.block, i, &mut self.code)?,
                };
                halves.product(to, add, tables, [low, high], &mut self.code)?;
            }
            [(from, _)] => halves.twice(to, add, from, &mut self.code)?,
            _ => return Err(NoCode),
        }
        used.into_iter().for_each(|(register, value)| self.release(register, value, at));
        if let Sum::Term(first, known) = sum {
            self.release(first, known, at);
        }
        Ok(Sum::Own(to))
    }

    /// Returns whether a product takes the halves of its value.
    pub(super) fn by_halves(&self, value: Value, factor: Factor) -> bool {
        match factor {
            ONE => false,
            Factor::Fixed(2) => !self.doubled[value.0 as usize],
            _ => true,
        }
    }

    /// The numbers of the halves of a value among values.
    pub(super) fn half_values(&self, value: Value) -> [Value; 2] {
        let first = self.block.values() as u32 + 2 * value.0;
        [Value(first), Value(first + 1)]
    }

    /// The registers with the halves of a value, which stay locked.
    fn halves(
        &mut self,
        halves: &dyn Halves<M>,
        value: Value,
        at: usize,
    ) -> Step<Vec<(usize, Value)>> {
        let both = self.half_values(value);
        if both.iter().all(|half| self.place[half.0 as usize] != Place::Nowhere) {
            return both.into_iter().map(|half| Ok((self.register(half)?, half))).collect();
        }
        let from = self.register(value)?;
        let low = self.own_register()?;
        let dies = self.uses[value.0 as usize] == [at];
        let high = if dies { from } else { self.own_register()? };
        halves.split(from, [low, high], &mut self.code)?;
        match dies {
            true => self.used(value, at),
            false => self.release(from, value, at),
        }
        let made = [low, high].into_iter().zip(both);
        for (register, half) in made.clone() {
            self.holds[register] = Some(half);
            self.place[half.0 as usize] = Place::Register(register);
        }
        Ok(made.collect())
    }

    /// A free register, locked.
    fn own_register(&mut self) -> Step<usize> {
        let register = self.free_register()?;
        self.lock(register);
        Ok(register)
    }

    /// After the use of a value in a register.
    fn release(&mut self, register: usize, value: Value, at: usize) {
        self.locked.retain(|&locked| locked != register);
        self.used(value, at);
    }
}
