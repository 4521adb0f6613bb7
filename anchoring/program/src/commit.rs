//! `commit`: the newest size and root of one owner's log under one authority.
//!
//! There is exactly one account for an authority and an owner: it can only be
//! made at the canonical address, so an authority cannot keep two histories
//! side by side and show each to somebody else. An account that this program
//! owns and that carries the magic was made here, so an update compares fields
//! and derives nothing.

use crate::runtime::{find_address, slot, Account, Call, Key, Seed, SYSTEM_PROGRAM};
use crate::{errors, system};

/// "MLCOMMT1", as a little-endian word.
const MAGIC: u64 = u64::from_le_bytes(*b"MLCOMMT1");
const ACCOUNT_LEN: u64 = 128;
const DATA_LEN: u64 = 80;

// The account, in words.
const AUTHORITY: usize = 1;
const OWNER: usize = 5;
const SIZE: usize = 9;
const ROOT: usize = 10;
const SLOT: usize = 14;
const COUNT: usize = 15;

/// Accounts: authority (signer, writable), commitment (writable), system program.
/// Data: tag u64, owner[32], size u64, root[32].
#[inline(always)]
pub fn commit(call: &Call) -> u64 {
    if call.data_len != DATA_LEN {
        return errors::INSTRUCTION;
    }
    if call.count != 3 {
        return errors::ACCOUNT_COUNT;
    }
    let (authority, account) = (call.account(0), call.account(1));
    if *call.account(2).key() != SYSTEM_PROGRAM {
        return errors::WRONG_PROGRAM;
    }
    if !authority.is_signer() {
        return errors::NOT_SIGNED;
    }
    let (owner, size, root) = unsafe {
        (&*(call.data.add(1) as *const Key), *call.data.add(5), &*(call.data.add(6) as *const Key))
    };
    if size == 0 {
        return errors::ZERO;
    }
    if *account.owner() == SYSTEM_PROGRAM {
        return create(call, authority, account, owner, size, root);
    }
    if account.owner() != call.program {
        return errors::FOREIGN_ACCOUNT;
    }
    if account.data_len() != ACCOUNT_LEN || unsafe { *account.data() } != MAGIC {
        return errors::ACCOUNT_DATA;
    }
    update(authority, account, owner, size, root)
}

#[inline(always)]
fn create(call: &Call, authority: Account, account: Account, owner: &Key, size: u64, root: &Key) -> u64 {
    let name = Seed::text(b"commitment");
    let seeds = [name, Seed::key(authority.key()), Seed::key(owner)];
    let Some((address, bump)) = find_address(&seeds, call.program) else {
        return errors::WRONG_ADDRESS;
    };
    if address != *account.key() {
        return errors::WRONG_ADDRESS;
    }
    let signer = [seeds[0], seeds[1], seeds[2], Seed::bump(&bump)];
    if !system::create(authority, account, ACCOUNT_LEN, call.program, &signer) {
        return errors::ARITHMETIC;
    }
    let data = account.data();
    unsafe {
        *data = MAGIC;
        *(data.add(AUTHORITY) as *mut Key) = *authority.key();
        *(data.add(OWNER) as *mut Key) = *owner;
    }
    write(data, size, root, 1);
    errors::OK
}

#[inline(always)]
fn update(authority: Account, account: Account, owner: &Key, size: u64, root: &Key) -> u64 {
    let data = account.data();
    unsafe {
        if *(data.add(AUTHORITY) as *const Key) != *authority.key() {
            return errors::WRONG_AUTHORITY;
        }
        if *(data.add(OWNER) as *const Key) != *owner {
            return errors::WRONG_OWNER;
        }
        let held = *data.add(SIZE);
        if size < held {
            return errors::SHRINKS;
        }
        if size == held {
            // Said before, word for word: nothing to do, so a commit may be
            // sent again without harm. Otherwise history would fork.
            let same = *(data.add(ROOT) as *const Key) == *root;
            return if same { errors::OK } else { errors::FORKS };
        }
        let count = *data.add(COUNT);
        if count == u64::MAX {
            return errors::ARITHMETIC;
        }
        write(data, size, root, count + 1);
    }
    errors::OK
}

#[inline(always)]
fn write(data: *mut u64, size: u64, root: &Key, count: u64) {
    unsafe {
        *data.add(SIZE) = size;
        *(data.add(ROOT) as *mut Key) = *root;
        *data.add(SLOT) = slot();
        *data.add(COUNT) = count;
    }
}
