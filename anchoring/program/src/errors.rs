//! What an instruction answers. Each refusal is a custom program error whose
//! upper half spells "ML", so that it is never mistaken for one of the system
//! or token program that surfaced through a cross-program call.

pub const OK: u64 = 0;

const BASE: u64 = 0x4d4c_0000;

/// Unknown tag, or data of another length than the instruction's.
pub const INSTRUCTION: u64 = BASE + 1;
/// Fewer or more accounts than the instruction takes.
pub const ACCOUNT_COUNT: u64 = BASE + 2;
/// One account named in two roles.
pub const DUPLICATE_ACCOUNT: u64 = BASE + 3;
/// The system or token program expected at this place is another account.
pub const WRONG_PROGRAM: u64 = BASE + 4;
/// The authority or wallet did not sign.
pub const NOT_SIGNED: u64 = BASE + 5;
/// Not the canonical program-derived address of the seeds.
pub const WRONG_ADDRESS: u64 = BASE + 6;
/// The account exists and belongs to another program.
pub const FOREIGN_ACCOUNT: u64 = BASE + 7;
/// The account is this program's, but its length or magic is wrong.
pub const ACCOUNT_DATA: u64 = BASE + 8;
/// The account was made by another authority.
pub const WRONG_AUTHORITY: u64 = BASE + 9;
/// The account commits to another owner's log.
pub const WRONG_OWNER: u64 = BASE + 10;
/// The size is smaller than the one committed.
pub const SHRINKS: u64 = BASE + 11;
/// The size is the one committed, the root is not.
pub const FORKS: u64 = BASE + 12;
/// A size or an amount of zero.
pub const ZERO: u64 = BASE + 13;
/// The token account is not of this mint, or holds less than the amount.
pub const INSUFFICIENT: u64 = BASE + 14;
/// A counter or a rent calculation would leave 64 bits.
pub const ARITHMETIC: u64 = BASE + 15;
