//! The on-chain side of Memory Ledger: `commit` keeps the newest root of each
//! owner's log, `stake` and `unstake` keep tokens in a vault that only their
//! owner can empty. See ../README.md for accounts, bytes and error codes.
//!
//! No crates and no allocation: what is deployed is what is read here.

#![no_std]

mod commit;
mod errors;
mod runtime;
mod stake;
mod system;

use runtime::{Call, Malformed};

const COMMIT: u64 = 1;
const STAKE: u64 = 2;
const UNSTAKE: u64 = 3;

/// # Safety
/// The runtime calls it with the address of a well-formed input buffer.
#[no_mangle]
pub unsafe extern "C" fn entrypoint(input: *mut u8) -> u64 {
    let call = match Call::parse(input) {
        Ok(call) => call,
        Err(Malformed::AccountCount) => return errors::ACCOUNT_COUNT,
        Err(Malformed::DuplicateAccount) => return errors::DUPLICATE_ACCOUNT,
    };
    if call.data_len < 8 {
        return errors::INSTRUCTION;
    }
    match *call.data {
        COMMIT => commit::commit(&call),
        STAKE => stake::stake(&call),
        UNSTAKE => stake::unstake(&call),
        _ => errors::INSTRUCTION,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    runtime::abort()
}
