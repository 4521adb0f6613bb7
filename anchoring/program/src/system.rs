//! Bringing an account into being at a program-derived address, whatever
//! lamports somebody may have sent there before.

use crate::runtime::{invoke, rent_exempt, Account, Key, Meta, Seed, SYSTEM_PROGRAM};

const CREATE_ACCOUNT: u64 = 0;
const ASSIGN: u64 = 1;
const TRANSFER: u64 = 2;
const ALLOCATE: u64 = 8;

/// Makes `account` a rent-exempt account of `len` zero bytes owned by `owner`,
/// paid by `payer`. False where the rent cannot be worked out. A refusal by the
/// system program ends the whole instruction, so nothing is left half made.
#[inline(always)]
pub fn create<const S: usize>(
    payer: Account,
    account: Account,
    len: u64,
    owner: &Key,
    seeds: &[Seed; S],
) -> bool {
    let Some(needed) = rent_exempt(len) else { return false };
    let both = [payer, account];
    let lamports = account.lamports();
    if lamports == 0 {
        let data = Bytes::<4, 7>::new(CREATE_ACCOUNT).word(0, needed).word(1, len).key(2, owner);
        let metas = [Meta::new(payer, true, true), Meta::new(account, true, true)];
        invoke(&SYSTEM_PROGRAM, &metas, data.data(), &both, seeds);
        return true;
    }
    // Prefunded: CreateAccount would refuse, so do its three steps one by one.
    if lamports < needed {
        let data = Bytes::<4, 2>::new(TRANSFER).word(0, needed - lamports);
        let metas = [Meta::new(payer, true, true), Meta::new(account, true, false)];
        invoke(&SYSTEM_PROGRAM, &metas, data.data(), &both, seeds);
    }
    let data = Bytes::<4, 2>::new(ALLOCATE).word(0, len);
    invoke(&SYSTEM_PROGRAM, &[Meta::new(account, true, true)], data.data(), &[account], seeds);
    let data = Bytes::<4, 5>::new(ASSIGN).key(0, owner);
    invoke(&SYSTEM_PROGRAM, &[Meta::new(account, true, true)], data.data(), &[account], seeds);
    true
}

/// Instruction data under construction: a tag of `T` bytes that ends where the
/// first word ends, then whole words. The machine loads and stores aligned words
/// only, so a field that sat right after a short tag would cost eight stores.
pub struct Bytes<const T: usize, const W: usize>([u64; W]);

impl<const T: usize, const W: usize> Bytes<T, W> {
    #[inline(always)]
    pub fn new(tag: u64) -> Self {
        let mut words = [0; W];
        words[0] = tag << (64 - 8 * T);
        Bytes(words)
    }
    /// Sets the `i`th word after the tag.
    #[inline(always)]
    pub fn word(mut self, i: usize, v: u64) -> Self {
        self.0[i + 1] = v;
        self
    }
    /// Sets four words, from the `i`th after the tag.
    #[inline(always)]
    pub fn key(self, i: usize, k: &Key) -> Self {
        self.word(i, k.0[0]).word(i + 1, k.0[1]).word(i + 2, k.0[2]).word(i + 3, k.0[3])
    }
    /// The bytes, from the tag's first to the last word's last.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        let skipped = 8 - T;
        unsafe { core::slice::from_raw_parts((self.0.as_ptr() as *const u8).add(skipped), 8 * W - skipped) }
    }
}
