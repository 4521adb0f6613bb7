//go:build cgo

package pkcs11

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"

	p11 "github.com/miekg/pkcs11"
)

// sessions is how many requests the device works on at the same time.
const sessions = 4

var (
	// ErrNotOurs: the data was not wrapped by this key, or was altered, or bound to
	// something else.
	ErrNotOurs = errors.New("the data does not unwrap")
	// ErrBusy: no session became free in time.
	ErrBusy = errors.New("the device is busy")
	// ErrGone: the device no longer works. Only a new process can find it again: most
	// libraries don't recover.
	ErrGone = errors.New("the device is gone")
)

// Token uses one AES-256 key of a token.
type Token struct {
	library *p11.Ctx
	slot    uint
	key     p11.ObjectHandle
	free    chan p11.SessionHandle
	secret  []byte
}

// Open logs in to the token and finds the key. With generate, it makes the key, unless
// there is one.
func Open(u URI, generate bool) (*Token, error) {
	library := p11.New(u.Module)
	if library == nil {
		return nil, fmt.Errorf("%s can't be loaded", u.Module)
	}
	if err := library.Initialize(); err != nil {
		return nil, fmt.Errorf("initialize %s: %w", u.Module, err)
	}
	t := &Token{library: library, free: make(chan p11.SessionHandle, sessions)}
	if err := t.find(u, generate); err != nil {
		return nil, errors.Join(err, library.Finalize())
	}
	return t, nil
}

func (t *Token) find(u URI, generate bool) (err error) {
	if t.slot, err = t.slotOf(u); err != nil {
		return err
	}
	pin, err := os.ReadFile(u.PINFile)
	if err != nil {
		return fmt.Errorf("the PIN: %w", err)
	}
	flags := uint(p11.CKF_SERIAL_SESSION)
	if generate {
		flags |= p11.CKF_RW_SESSION
	}
	first, err := t.library.OpenSession(t.slot, flags)
	if err == nil {
		err = t.library.Login(first, p11.CKU_USER, strings.TrimRight(string(pin), "\r\n"))
	}
	if err != nil {
		return fmt.Errorf("log in to the token: %w", err)
	}
	keys, err := t.named(first, u.Object)
	if err == nil && len(keys) == 0 && generate {
		keys, err = t.generate(first, u.Object)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look for the key %s: %w", u.Object, err)
	case len(keys) != 1:
		return fmt.Errorf("the token has %d keys named %s, want one", len(keys), u.Object)
	}
	t.key = keys[0]
	if err := t.stays(first); err != nil {
		return fmt.Errorf("the key %s: %w", u.Object, err)
	}
	t.free <- first
	for range sessions - 1 {
		session, err := t.library.OpenSession(t.slot, p11.CKF_SERIAL_SESSION)
		if err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		t.free <- session
	}
	t.secret, err = t.derive(first)
	return err
}

func (t *Token) slotOf(u URI) (uint, error) {
	slots, err := t.library.GetSlotList(true)
	if err != nil {
		return 0, fmt.Errorf("list the slots: %w", err)
	}
	for _, slot := range slots {
		info, err := t.library.GetTokenInfo(slot)
		if err == nil && (u.Token == "" || info.Label == u.Token) && (u.Serial == "" || info.SerialNumber == u.Serial) {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("no token %s%s in %d slots", u.Token, u.Serial, len(slots))
}

func (t *Token) named(session p11.SessionHandle, label string) ([]p11.ObjectHandle, error) {
	err := t.library.FindObjectsInit(session, []*p11.Attribute{
		p11.NewAttribute(p11.CKA_CLASS, p11.CKO_SECRET_KEY), p11.NewAttribute(p11.CKA_LABEL, label),
	})
	if err != nil {
		return nil, err
	}
	found, _, err := t.library.FindObjects(session, 2)
	return found, errors.Join(err, t.library.FindObjectsFinal(session))
}

func (t *Token) generate(session p11.SessionHandle, label string) ([]p11.ObjectHandle, error) {
	key, err := t.library.GenerateKey(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_KEY_GEN, nil)}, []*p11.Attribute{
		p11.NewAttribute(p11.CKA_CLASS, p11.CKO_SECRET_KEY), p11.NewAttribute(p11.CKA_KEY_TYPE, p11.CKK_AES),
		p11.NewAttribute(p11.CKA_VALUE_LEN, 32), p11.NewAttribute(p11.CKA_LABEL, label), p11.NewAttribute(p11.CKA_TOKEN, true),
		p11.NewAttribute(p11.CKA_PRIVATE, true), p11.NewAttribute(p11.CKA_SENSITIVE, true), p11.NewAttribute(p11.CKA_EXTRACTABLE, false),
		p11.NewAttribute(p11.CKA_ENCRYPT, true), p11.NewAttribute(p11.CKA_DECRYPT, true),
	})
	return []p11.ObjectHandle{key}, err
}

// stays checks that the key can't leave the device.
func (t *Token) stays(session p11.SessionHandle) error {
	values, err := t.library.GetAttributeValue(session, t.key, []*p11.Attribute{
		p11.NewAttribute(p11.CKA_EXTRACTABLE, nil), p11.NewAttribute(p11.CKA_SENSITIVE, nil),
	})
	if err != nil {
		return err
	}
	isTrue := func(a *p11.Attribute) bool { return len(a.Value) == 1 && a.Value[0] != 0 }
	if isTrue(values[0]) || !isTrue(values[1]) {
		return errors.New("it is extractable or not sensitive: make one that can't leave the device")
	}
	return nil
}

// derive returns what only this key gives: the encryption of two constant blocks.
func (t *Token) derive(session p11.SessionHandle) ([]byte, error) {
	blocks := sha256.Sum256([]byte("memory-ledger/pkcs11-secret/v1"))
	if err := t.library.EncryptInit(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_ECB, nil)}, t.key); err != nil {
		return nil, fmt.Errorf("derive the secret: %w", err)
	}
	secret, err := t.library.Encrypt(session, blocks[:])
	if err != nil {
		return nil, fmt.Errorf("derive the secret: %w", err)
	}
	return secret, nil
}

// Secret returns what only this key gives.
func (t *Token) Secret() []byte { return t.secret }

const (
	ivSize  = 12
	tagBits = 128
)

// Wrap returns the initialization vector, and ciphertext and tag of AES-256-GCM.
func (t *Token) Wrap(ctx context.Context, plain, bound []byte) ([]byte, error) {
	return t.with(ctx, func(session p11.SessionHandle) ([]byte, error) {
		iv := make([]byte, ivSize)
		rand.Read(iv) // never fails: it ends the program instead
		params := p11.NewGCMParams(iv, bound, tagBits)
		defer params.Free()
		if err := t.library.EncryptInit(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_GCM, params)}, t.key); err != nil {
			return nil, err
		}
		sealed, err := t.library.Encrypt(session, plain)
		return append(params.IV(), sealed...), err // some devices choose the vector
	})
}

// Unwrap opens what Wrap returned.
func (t *Token) Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error) {
	if len(wrapped) < ivSize+tagBits/8 {
		return nil, ErrNotOurs
	}
	return t.with(ctx, func(session p11.SessionHandle) ([]byte, error) {
		params := p11.NewGCMParams(wrapped[:ivSize], bound, tagBits)
		defer params.Free()
		if err := t.library.DecryptInit(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_GCM, params)}, t.key); err != nil {
			return nil, err
		}
		return t.library.Decrypt(session, wrapped[ivSize:])
	})
}

// with does something in a session that is free. Libraries have no common error for data
// that does not unwrap. So after any error the key is tried in a session of its own: if it
// works, the data was wrong.
func (t *Token) with(ctx context.Context, do func(p11.SessionHandle) ([]byte, error)) ([]byte, error) {
	var session p11.SessionHandle
	select {
	case session = <-t.free:
	case <-ctx.Done():
		return nil, ErrBusy
	}
	result, err := do(session)
	if err == nil {
		t.free <- session
		return result, nil
	}
	_ = t.library.CloseSession(session) // the failed operation may still be active in it
	fresh, opened := t.library.OpenSession(t.slot, p11.CKF_SERIAL_SESSION)
	if opened == nil {
		_, opened = t.derive(fresh)
	}
	if opened != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, errors.Join(err, opened))
	}
	t.free <- fresh
	return nil, fmt.Errorf("%w: %w", ErrNotOurs, err)
}
