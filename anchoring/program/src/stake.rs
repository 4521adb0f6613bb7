//! `stake` and `unstake`: tokens move between a wallet and its vault, a token
//! account at a program-derived address that is its own authority. So nobody
//! but this program can move them, and this program only asks the wallet.

use crate::errors;
use crate::runtime::{find_address, invoke, Account, Call, Key, Meta, Seed, SYSTEM_PROGRAM, TOKEN_PROGRAM};
use crate::system::{self, Bytes};

const DATA_LEN: u64 = 16;
const TOKEN_ACCOUNT_LEN: u64 = 165;

const TOKEN_TRANSFER: u64 = 3;
const TOKEN_INITIALIZE_ACCOUNT_3: u64 = 18;

/// Accounts: wallet (signer, writable), its token account (writable), vault
/// (writable), mint, token program, system program. Data: tag u64, amount u64.
#[inline(always)]
pub fn stake(call: &Call) -> u64 {
    if call.data_len != DATA_LEN {
        return errors::INSTRUCTION;
    }
    if call.count != 6 {
        return errors::ACCOUNT_COUNT;
    }
    if *call.account(5).key() != SYSTEM_PROGRAM {
        return errors::WRONG_PROGRAM;
    }
    let (amount, bump) = match check(call) {
        Ok(v) => v,
        Err(code) => return code,
    };
    let (wallet, source, vault, mint) = (call.account(0), call.account(1), call.account(2), call.account(3));
    if !holds(source, mint.key(), amount) {
        return errors::INSUFFICIENT;
    }
    let seeds = seeds(wallet, mint, &bump);
    if *vault.owner() == SYSTEM_PROGRAM {
        if !system::create(wallet, vault, TOKEN_ACCOUNT_LEN, &TOKEN_PROGRAM, &seeds) {
            return errors::ARITHMETIC;
        }
        let data = Bytes::<1, 5>::new(TOKEN_INITIALIZE_ACCOUNT_3).key(0, vault.key());
        let metas = [Meta::new(vault, true, false), Meta::new(mint, false, false)];
        invoke(&TOKEN_PROGRAM, &metas, data.data(), &[vault, mint], &seeds);
    }
    let data = Bytes::<1, 2>::new(TOKEN_TRANSFER).word(0, amount);
    let metas =
        [Meta::new(source, true, false), Meta::new(vault, true, false), Meta::new(wallet, false, true)];
    invoke(&TOKEN_PROGRAM, &metas, data.data(), &[source, vault, wallet], &seeds);
    errors::OK
}

/// Accounts: wallet (signer), destination token account (writable), vault
/// (writable), mint, token program. Data: tag u64, amount u64.
#[inline(always)]
pub fn unstake(call: &Call) -> u64 {
    if call.data_len != DATA_LEN {
        return errors::INSTRUCTION;
    }
    if call.count != 5 {
        return errors::ACCOUNT_COUNT;
    }
    let (amount, bump) = match check(call) {
        Ok(v) => v,
        Err(code) => return code,
    };
    let (wallet, destination, vault, mint) =
        (call.account(0), call.account(1), call.account(2), call.account(3));
    if !holds(vault, mint.key(), amount) {
        return errors::INSUFFICIENT;
    }
    let data = Bytes::<1, 2>::new(TOKEN_TRANSFER).word(0, amount);
    let metas =
        [Meta::new(vault, true, false), Meta::new(destination, true, false), Meta::new(vault, false, true)];
    invoke(&TOKEN_PROGRAM, &metas, data.data(), &[vault, destination], &seeds(wallet, mint, &bump));
    errors::OK
}

/// What both ask for: the wallet's signature, SPL Token itself (a Token-2022
/// mint may take fees or be moved by others, so its vault would lie about what
/// was staked), an amount, and the vault of this very wallet and mint.
#[inline(always)]
fn check(call: &Call) -> Result<(u64, u8), u64> {
    let (wallet, vault, mint) = (call.account(0), call.account(2), call.account(3));
    if *call.account(4).key() != TOKEN_PROGRAM {
        return Err(errors::WRONG_PROGRAM);
    }
    if !wallet.is_signer() {
        return Err(errors::NOT_SIGNED);
    }
    let amount = unsafe { *call.data.add(1) };
    if amount == 0 {
        return Err(errors::ZERO);
    }
    let name = Seed::text(b"vault");
    let seeds = [name, Seed::key(mint.key()), Seed::key(wallet.key())];
    match find_address(&seeds, call.program) {
        Some((address, bump)) if address == *vault.key() => Ok((amount, bump)),
        _ => Err(errors::WRONG_ADDRESS),
    }
}

#[inline(always)]
fn seeds(wallet: Account, mint: Account, bump: &u8) -> [Seed; 4] {
    [Seed::text(b"vault"), Seed::key(mint.key()), Seed::key(wallet.key()), Seed::bump(bump)]
}

/// Whether a token account of this mint holds at least `amount`. The token
/// program checks again; asking here gives the refusal a name of ours.
#[inline(always)]
fn holds(account: Account, mint: &Key, amount: u64) -> bool {
    if *account.owner() != TOKEN_PROGRAM || account.data_len() != TOKEN_ACCOUNT_LEN {
        return false;
    }
    unsafe {
        let data = account.data();
        // mint[32], owner[32], amount u64
        *(data as *const Key) == *mint && *data.add(8) >= amount
    }
}
