//! Machine code made at run time: what is common to the kernels that make it.
//!
//! `allocate` turns a block into a straight line of instructions, `call` runs what the architecture
//! (`x86`, `arm`) made of it, `matrix` sees matrices as blocks.

pub(super) mod pages;
pub(super) mod target;
mod allocate;
pub(super) mod call;
pub(super) mod matrix;
#[cfg(any(target_arch = "aarch64", test))] // its code can be made, though not run, everywhere
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(super) mod arm;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

/// Implements [`Kernel`](super::Kernel) and [`Engine`](super::engine::Engine) for a kernel with
/// code made at run time. A field of it is the kernel that does all that the code leaves.
macro_rules! kernel {
    ($jit:ident.$left:tt = $name:literal, vectors: $width:expr, most: $rows:expr) => {
        impl $crate::kernel::Kernel for $jit {
            fn name(&self) -> &'static str {
                $name
            }

            fn vector_len(&self) -> usize {
                $width
            }
        }

        impl Engine for $jit {
            fn most_rows(&self) -> usize {
                $rows(self.$left)
            }

            fn table_len(&self) -> usize {
                self.$left.table_len()
            }

            fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
                self.$left.tabulate(coefficient, table);
            }

            fn code_gen(&self) -> Option<&dyn CodeGen> {
                pages::are_allowed().then_some(self)
            }

            unsafe fn pass(&self, pass: &Pass<'_>) {
                // SAFETY: the caller vouches for the operands, `self` for the CPU, and a pass
                // brings the code that `prepare` made for its coefficients. What the code leaves
                // is within `len`.
                unsafe {
                    let done = pass.run_code();
                    if done < pass.len {
                        self.$left.pass_from(pass, done);
                    }
                }
            }
        }
    };
}

pub(super) use kernel;
