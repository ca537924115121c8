//! Scalar arithmetic in GF(2^8) with polynomial 0x11d and generator 2.
//!
//! Elements are bytes: bit i is the coefficient of x^i. Addition is XOR. Tables are computed by
//! the compiler, so nothing has to be initialised and everything here is usable in constants.
//!
//! ```
//! use kiln_gf::field;
//! assert_eq!(field::mul(0x80, 2), 0x1d);
//! assert_eq!(field::mul(7, field::inv(7)), 1);
//! ```

/// The field's polynomial x^8 + x^4 + x^3 + x^2 + 1, leading bit included.
pub const POLYNOMIAL: u16 = 0x11d;

/// Order of the multiplicative group: powers of 2 repeat after this many.
pub const ORDER: usize = 255;

/// `EXP[i]` = 2^i, for i up to twice the order so that sums of two logarithms need no reduction.
static EXP: [u8; 512] = powers();

/// `LOG[a]` = i with 2^i = a; `LOG[0]` is meaningless.
static LOG: [u8; 256] = logarithms();

/// All products: `MUL[a][b]` = a b.
pub static MUL: [[u8; 256]; 256] = products();

const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL as u8 } else { 0 }
}

const fn powers() -> [u8; 512] {
    let mut table = [0; 512];
    let (mut i, mut power) = (0, 1);
    while i < table.len() {
        table[i] = power;
        power = double(power);
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let (mut i, mut power) = (0, 1);
    while i < ORDER {
        table[power as usize] = i as u8;
        power = double(power);
        i += 1;
    }
    table
}

const fn products() -> [[u8; 256]; 256] {
    let mut table = [[0; 256]; 256];
    let mut a = 0;
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            // a b = 2 (a (b/2)) + a (b mod 2)
            table[a][b] = double(table[a][b >> 1]) ^ if b & 1 == 1 { a as u8 } else { 0 };
            b += 1;
        }
        a += 1;
    }
    table
}

/// The product a b.
#[inline]
pub const fn mul(a: u8, b: u8) -> u8 {
    MUL[a as usize][b as usize]
}

/// The inverse of `a`.
///
/// # Panics
/// When `a` is 0, which has no inverse.
#[inline]
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    EXP[ORDER - LOG[a as usize] as usize]
}

/// The quotient a / b.
///
/// # Panics
/// When `b` is 0.
#[inline]
pub const fn div(a: u8, b: u8) -> u8 {
    mul(a, inv(b))
}

/// `a` to the power `exponent`, with 0^0 = 1.
pub const fn pow(a: u8, exponent: usize) -> u8 {
    if exponent == 0 {
        1
    } else if a == 0 {
        0
    } else {
        EXP[LOG[a as usize] as usize * (exponent % ORDER) % ORDER]
    }
}

/// The generator's power 2^exponent.
pub const fn exp(exponent: usize) -> u8 {
    EXP[exponent % ORDER]
}

/// The exponent below 255 with 2^exponent = a, or `None` for 0.
pub const fn log(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(LOG[a as usize]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Product by definition: polynomial multiplication, then reduction.
    fn slow_mul(a: u8, b: u8) -> u8 {
        let mut wide: u32 = 0;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                wide ^= u32::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= u32::from(POLYNOMIAL) << (bit - 8);
            }
        }
        wide as u8
    }

    #[test]
    fn every_product_is_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), slow_mul(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn inverses_quotients_powers_logarithms() {
        for a in 1..=255u8 {
            assert_eq!(mul(a, inv(a)), 1);
            assert_eq!(exp(log(a).unwrap() as usize), a);
            let mut power = 1;
            for e in 0..600 {
                assert_eq!(pow(a, e), power, "{a}^{e}");
                power = mul(power, a);
            }
            for b in 1..=255 {
                assert_eq!(mul(div(a, b), b), a);
            }
        }
        assert_eq!((pow(0, 0), pow(0, 3), log(0)), (1, 0, None));
        assert_eq!((exp(8), exp(255)), (0x1d, 1));
    }

    #[test]
    fn usable_in_constants() {
        const EIGHT: u8 = div(mul(4, 6), inv(inv(3)));
        assert_eq!(EIGHT, 8);
    }
}
