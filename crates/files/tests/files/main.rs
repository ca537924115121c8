//! Everything that objects over nodes must bear, on memory and on faulty stores.

mod crash;
mod damage;
mod declared;
mod faults;
mod havoc;
mod helpers;
mod places;
mod planned;
mod raw;
mod repair;
mod round_trip;
