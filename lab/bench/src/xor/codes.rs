//! The codes of the paper's experiments, and those of Jerasure's that bars are about.

/// One code that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// Its spec without `packet`.
    pub spec: &'static str,
    /// Where the paper shows it.
    pub figure: &'static str,
    /// Its name and w for Jerasure's engines, if that library has it.
    pub jerasure: Option<(&'static str, usize)>,
    /// Whether the page's bars against Jerasure are about it.
    pub bar: bool,
}

/// The codes, in the order of the paper. X-Code with p = 11: 11 columns, of which kiln makes two
/// the parity chunks.
pub const CODES: &[Code] = &[
    Code {
        spec: "liberation:11+2,w=11",
        figure: "Figures 3-6",
        jerasure: Some(("liberation", 11)),
        bar: true,
    },
    Code {
        spec: "liberation:5+2,w=5",
        figure: "Figure 7",
        jerasure: Some(("liberation", 5)),
        bar: false,
    },
    Code {
        spec: "liberation:17+2,w=17",
        figure: "Figure 7",
        jerasure: Some(("liberation", 17)),
        bar: false,
    },
    Code { spec: "evenodd:11+2,p=11", figure: "Figure 8", jerasure: None, bar: false },
    Code { spec: "rdp:10+2,p=11", figure: "Figure 8", jerasure: None, bar: false },
    Code { spec: "xcode:9+2,p=11", figure: "Figure 8", jerasure: None, bar: false },
    Code { spec: "star:11+3,p=11", figure: "Figure 8", jerasure: None, bar: false },
    Code {
        spec: "blaum-roth:10+2,w=10",
        figure: "not in the paper",
        jerasure: Some(("blaum-roth", 10)),
        bar: true,
    },
];

/// Packets from 64 B to 64 KiB.
pub const PACKETS: &[usize] =
    &[64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
