//! The runtime's side of the bargain: the input buffer, the syscalls and
//! cross-program calls, as bytes and addresses. Nothing here knows what the
//! program is for.

use core::mem::transmute;

/// A 32-byte address, as four words: every key in the input buffer is 8-aligned.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Key(pub [u64; 4]);

/// Word by word: the comparison that an array brings along goes byte by byte.
impl PartialEq for Key {
    #[inline(always)]
    fn eq(&self, other: &Key) -> bool {
        let (a, b) = (&self.0, &other.0);
        (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) == 0
    }
}

pub const SYSTEM_PROGRAM: Key = Key([0; 4]);
/// TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA
pub const TOKEN_PROGRAM: Key = key(&[
    0x06, 0xdd, 0xf6, 0xe1, 0xd7, 0x65, 0xa1, 0x93, 0xd9, 0xcb, 0xe1, 0x46, 0xce, 0xeb, 0x79, 0xac, 0x1c,
    0xb4, 0x85, 0xed, 0x5f, 0x5b, 0x37, 0x91, 0x3a, 0x8c, 0xf5, 0x85, 0x7e, 0xff, 0x00, 0xa9,
]);

/// The most accounts that any instruction of this program takes.
pub const MAX_ACCOUNTS: usize = 6;

const fn key(b: &[u8; 32]) -> Key {
    let mut k = [0u64; 4];
    let mut i = 0;
    while i < 32 {
        k[i / 8] |= (b[i] as u64) << (8 * (i % 8));
        i += 1;
    }
    Key(k)
}

/// One account of the input buffer, by its address there. The runtime lays it
/// out as: marker u8, signer u8, writable u8, executable u8, 4 spare bytes, key,
/// owner, lamports u64, data length u64, data, room to grow, rent epoch u64.
#[derive(Clone, Copy)]
pub struct Account(*mut u8);

impl Account {
    #[inline(always)]
    pub fn is_signer(&self) -> bool {
        unsafe { *self.0.add(1) != 0 }
    }
    #[inline(always)]
    pub fn key(&self) -> &'static Key {
        unsafe { &*(self.0.add(8) as *const Key) }
    }
    #[inline(always)]
    pub fn owner(&self) -> &'static Key {
        unsafe { &*(self.0.add(40) as *const Key) }
    }
    #[inline(always)]
    pub fn lamports(&self) -> u64 {
        unsafe { *(self.0.add(72) as *const u64) }
    }
    #[inline(always)]
    pub fn data_len(&self) -> u64 {
        unsafe { *(self.0.add(80) as *const u64) }
    }
    /// The data, as words. The caller has checked `data_len` first.
    #[inline(always)]
    pub fn data(&self) -> *mut u64 {
        unsafe { self.0.add(88) as *mut u64 }
    }
    #[inline(always)]
    fn info(&self) -> Info {
        unsafe {
            Info {
                key: self.0.add(8) as u64,
                lamports: self.0.add(72) as u64,
                data_len: self.data_len(),
                data: self.0.add(88) as u64,
                owner: self.0.add(40) as u64,
                rent_epoch: 0,
                signer: *self.0.add(1),
                writable: *self.0.add(2),
                executable: *self.0.add(3),
            }
        }
    }
}

/// A parsed call: its accounts, its instruction data and this program's id.
pub struct Call {
    accounts: [Account; MAX_ACCOUNTS],
    pub count: u64,
    pub data: *const u64,
    pub data_len: u64,
    pub program: &'static Key,
}

/// What `parse` refuses.
pub enum Malformed {
    AccountCount,
    DuplicateAccount,
}

impl Call {
    #[inline(always)]
    pub fn account(&self, i: usize) -> Account {
        // Constant indices below MAX_ACCOUNTS only.
        self.accounts[i]
    }

    /// Walks the input buffer. The program id is read where the data ends, so
    /// it is 8-aligned whenever the data's length is a multiple of 8; other
    /// lengths are refused by every instruction before the id is touched.
    #[inline(always)]
    pub unsafe fn parse(input: *mut u8) -> Result<Call, Malformed> {
        const ROOM_TO_GROW: usize = 10 * 1024;
        let count = *(input as *const u64);
        if count > MAX_ACCOUNTS as u64 {
            return Err(Malformed::AccountCount);
        }
        let mut accounts = [Account(input); MAX_ACCOUNTS];
        let mut at = input.add(8);
        let mut i = 0;
        while i < count as usize {
            // Not a first mention: an index instead of the marker. No
            // instruction here has a use for one account in two roles.
            if *at != 0xff {
                return Err(Malformed::DuplicateAccount);
            }
            let account = Account(at);
            *accounts.get_unchecked_mut(i) = account;
            let end = 88 + account.data_len() as usize + ROOM_TO_GROW;
            at = at.add(((end + 7) & !7) + 8);
            i += 1;
        }
        let data_len = *(at as *const u64);
        let data = at.add(8);
        Ok(Call {
            accounts,
            count,
            data: data as *const u64,
            data_len,
            program: &*(data.add(data_len as usize) as *const Key),
        })
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Seed {
    addr: u64,
    len: u64,
}

impl Seed {
    #[inline(always)]
    pub fn text(s: &'static [u8]) -> Seed {
        Seed { addr: s.as_ptr() as u64, len: s.len() as u64 }
    }
    #[inline(always)]
    pub fn key(k: *const Key) -> Seed {
        Seed { addr: k as u64, len: 32 }
    }
    #[inline(always)]
    pub fn bump(b: &u8) -> Seed {
        Seed { addr: b as *const u8 as u64, len: 1 }
    }
}

#[repr(C)]
pub struct Meta {
    key: u64,
    writable: bool,
    signer: bool,
}

impl Meta {
    #[inline(always)]
    pub fn new(account: Account, writable: bool, signer: bool) -> Meta {
        Meta { key: account.key() as *const Key as u64, writable, signer }
    }
}

#[repr(C)]
struct Info {
    key: u64,
    lamports: u64,
    data_len: u64,
    data: u64,
    owner: u64,
    rent_epoch: u64,
    signer: u8,
    writable: u8,
    executable: u8,
}

#[repr(C)]
struct Instruction {
    program: u64,
    metas: u64,
    metas_len: u64,
    data: u64,
    data_len: u64,
}

#[repr(C)]
struct Signer {
    seeds: u64,
    len: u64,
}

/// Calls another program, signing with `seeds` (which include the bump). A
/// refusal there ends this program too: the runtime never returns from it.
#[inline(always)]
pub fn invoke<const M: usize, const A: usize, const S: usize>(
    program: &Key,
    metas: &[Meta; M],
    data: &[u8],
    accounts: &[Account; A],
    seeds: &[Seed; S],
) {
    let infos: [Info; A] = core::array::from_fn(|i| accounts[i].info());
    let instruction = Instruction {
        program: program as *const Key as u64,
        metas: metas.as_ptr() as u64,
        metas_len: M as u64,
        data: data.as_ptr() as u64,
        data_len: data.len() as u64,
    };
    let signer = Signer { seeds: seeds.as_ptr() as u64, len: S as u64 };
    unsafe {
        let f: extern "C" fn(u64, u64, u64, u64, u64) -> u64 =
            transmute(const { syscall(b"sol_invoke_signed_c") });
        f(
            &instruction as *const Instruction as u64,
            infos.as_ptr() as u64,
            A as u64,
            &signer as *const Signer as u64,
            1,
        );
    }
}

/// The canonical program-derived address of `seeds` and its bump.
#[inline(always)]
pub fn find_address<const S: usize>(seeds: &[Seed; S], program: &Key) -> Option<(Key, u8)> {
    let mut address = Key([0; 4]);
    let mut bump = 0u8;
    let failed = unsafe {
        let f: extern "C" fn(u64, u64, u64, u64, u64) -> u64 =
            transmute(const { syscall(b"sol_try_find_program_address") });
        f(
            seeds.as_ptr() as u64,
            S as u64,
            program as *const Key as u64,
            &mut address as *mut Key as u64,
            &mut bump as *mut u8 as u64,
        )
    };
    if failed != 0 {
        return None;
    }
    Some((address, bump))
}

/// The current slot.
#[inline(always)]
pub fn slot() -> u64 {
    let mut clock = [0u64; 5];
    unsafe {
        let f: extern "C" fn(u64) -> u64 = transmute(const { syscall(b"sol_get_clock_sysvar") });
        f(&mut clock as *mut [u64; 5] as u64);
    }
    clock[0]
}

/// The balance that keeps `len` bytes of data alive, by the rent sysvar of the
/// moment: (128 + len) × rate × threshold. The threshold is an IEEE 754 double,
/// taken apart into integers because the machine has no floats. `None` where
/// the product leaves u64, which no sane sysvar does.
#[inline(always)]
pub fn rent_exempt(len: u64) -> Option<u64> {
    let mut rent = [0u64; 3];
    unsafe {
        let f: extern "C" fn(u64) -> u64 = transmute(const { syscall(b"sol_get_rent_sysvar") });
        f(&mut rent as *mut [u64; 3] as u64);
    }
    let (rate, bits) = (rent[0], rent[1]);
    let exponent = (bits >> 52) as i64; // a set sign bit makes it > 2047
    if exponent == 0 || exponent >= 2047 {
        return if bits == 0 { Some(0) } else { None };
    }
    // threshold = mantissa × 2^shift, the mantissa odd and so as short as can be
    let mut mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    let mut shift = exponent - 1075;
    while mantissa & 1 == 0 {
        mantissa >>= 1;
        shift += 1;
    }
    let base = times(128 + len, rate)?;
    let product = times(base, mantissa)?;
    if shift >= 64 || shift <= -64 {
        return None;
    }
    if shift < 0 {
        return Some((product >> -shift) + 1);
    }
    times(product, 1 << shift)
}

/// a × b, refused where it could leave u64. Judged by bit lengths: a checked
/// multiplication would need 128-bit arithmetic, which the machine lacks.
#[inline(always)]
fn times(a: u64, b: u64) -> Option<u64> {
    if bits(a) + bits(b) > 64 {
        return None;
    }
    Some(a * b)
}

#[inline(always)]
fn bits(mut a: u64) -> u64 {
    let mut n = 0;
    while a != 0 {
        a >>= 1;
        n += 1;
    }
    n
}

/// Ends the program with an error. Reached by no path that is known of.
pub fn abort() -> ! {
    unsafe {
        let f: extern "C" fn() -> ! = transmute(const { syscall(b"abort") });
        f()
    }
}

/// A syscall's number: murmur3-32 (seed 0) of its name, which sBPF v3 calls by
/// immediate. Known when compiling, so no relocation is left for a loader.
const fn syscall(name: &[u8]) -> usize {
    let mut h = 0u32;
    let mut i = 0;
    while i + 4 <= name.len() {
        let k = name[i] as u32
            | (name[i + 1] as u32) << 8
            | (name[i + 2] as u32) << 16
            | (name[i + 3] as u32) << 24;
        h = (h ^ scramble(k)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
        i += 4;
    }
    let mut tail = 0u32;
    let mut j = name.len();
    while j > i {
        j -= 1;
        tail = (tail << 8) | name[j] as u32;
    }
    h ^= scramble(tail);
    h ^= name.len() as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    // Sign-extended, as the call's 32-bit immediate is.
    (h ^ (h >> 16)) as i32 as isize as usize
}

const fn scramble(k: u32) -> u32 {
    k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}
