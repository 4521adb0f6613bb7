// Package device is a master key in a PKCS #11 device, which it never leaves. The program
// ledger-pkcs11 talks to the device, because that takes its maker's C library: ledger is a
// static program, which loads none. It answers on a Unix socket, which only those who may
// use the key can open.
package device

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/services/keystore"
)

// The paths of the requests, each with a Message, and the answer a Message too.
const (
	PathWrap   = "/wrap"   // a key of 32 bytes
	PathUnwrap = "/unwrap" // what PathWrap returned; 422: it was altered, or bound to something else
	PathSecret = "/secret" // see keystore.Master
)

// Message is a request or an answer. Bound is what the data is bound to.
type Message struct {
	Data  []byte `json:"data,omitzero"`
	Bound []byte `json:"bound,omitzero"`
}

// Key is a master key in a device.
type Key struct {
	client *http.Client
	secret keystore.MasterKey
}

// Open finds the key behind a socket.
func Open(ctx context.Context, socket string) (*Key, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	k := &Key{client: &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, // the program may be restarted at any time
		MaxConnsPerHost: 8, // as many requests of a process as the program answers at the same time
	}}}
	secret, err := k.ask(ctx, PathSecret, Message{})
	if err == nil && len(secret) != keystore.KeySize {
		err = fmt.Errorf("%w: %s is no socket of ledger-pkcs11", keystore.ErrUnavailable, socket)
	}
	if err != nil {
		return nil, err
	}
	k.secret = keystore.MasterKey(secret)
	return k, nil
}

// ID is the id of the secret, which only this key gives.
func (k *Key) ID() string { return k.secret.ID() }

// Secret is derived from the key by the device.
func (k *Key) Secret() keystore.MasterKey { return k.secret }

// String keeps the secret out of logs and error messages.
func (k *Key) String() string { return "[key in a device]" }

// Wrap seals with a fresh key, which the device wraps, because a device takes little data
// at a time. It returns the length of the wrapped key in two bytes, that key, and the rest.
func (k *Key) Wrap(ctx context.Context, plain, bound []byte) ([]byte, error) {
	var fresh keystore.MasterKey
	rand.Read(fresh[:]) // never fails: it ends the program instead
	key, err := k.ask(ctx, PathWrap, Message{Data: fresh[:], Bound: bound})
	if err != nil {
		return nil, err
	}
	sealed, err := fresh.Wrap(ctx, plain, bound)
	if err != nil {
		return nil, err
	}
	return append(append(binary.BigEndian.AppendUint16(nil, uint16(len(key))), key...), sealed...), nil
}

// Unwrap opens what Wrap has sealed.
func (k *Key) Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error) {
	if len(wrapped) < 2 || len(wrapped)-2 < int(binary.BigEndian.Uint16(wrapped)) {
		return nil, keystore.ErrSealed
	}
	end := 2 + int(binary.BigEndian.Uint16(wrapped))
	fresh, err := k.ask(ctx, PathUnwrap, Message{Data: wrapped[2:end], Bound: bound})
	if err != nil {
		return nil, err
	}
	if len(fresh) != keystore.KeySize {
		return nil, keystore.ErrSealed
	}
	return keystore.MasterKey(fresh).Unwrap(ctx, wrapped[end:], bound)
}

// ask sends one request. A key or a secret in an answer is never part of an error.
func (k *Key) ask(ctx context.Context, path string, question Message) ([]byte, error) {
	// This bounds a request, with its wait for its turn.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://device"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: the device of the master key: %w", keystore.ErrUnavailable, err)
	}
	defer answer.Body.Close()
	var got Message
	switch answer.StatusCode {
	case http.StatusOK:
		if json.UnmarshalRead(io.LimitReader(answer.Body, 1<<16), &got) != nil {
			return nil, fmt.Errorf("%w: the device of the master key: %w", keystore.ErrUnavailable, errAnswer)
		}
		return got.Data, nil
	case http.StatusUnprocessableEntity:
		return nil, keystore.ErrSealed
	}
	return nil, fmt.Errorf("%w: the device of the master key: %s", keystore.ErrUnavailable, answer.Status)
}

var errAnswer = errors.New("not an answer of ledger-pkcs11")
