//go:build cgo

// Command ledger-pkcs11 lets ledger use a master key in a PKCS #11 token. It is a program
// of its own because the token's library needs a C runtime, and because a crash of that
// library must not be one of ledger's.
//
//	ledger-pkcs11 [--generate] SOCKET URI
//
// It listens on a Unix socket, which its group may open. URI is a pkcs11: URI of RFC 7512
// with token, object, module-path and pin-source. --generate makes the key, an AES-256 key
// that can't leave the token, unless there is one. When the device fails, the program ends:
// whatever started it starts it again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/memory-ledger/ledger/services/keystore/device"
	"github.com/memory-ledger/ledger/services/keystore/pkcs11"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("ledger-pkcs11: ")
	generate := flag.Bool("generate", false, "make the key, unless there is one")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Print("usage: ledger-pkcs11 [--generate] SOCKET URI")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), flag.Arg(1), *generate); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, socket, uri string, generate bool) error {
	u, err := pkcs11.ParseURI(uri)
	if err != nil {
		return err
	}
	token, err := pkcs11.Open(u, generate)
	if err != nil {
		return err
	}
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	server := &http.Server{Handler: handler(token, end), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { end(server.Serve(listener)) }()
	log.Printf("listening on %s", socket)
	<-ctx.Done()
	_ = os.Remove(socket) // others are told at once that it is gone
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// listen makes the socket, in place of one that a killed process has left.
func listen(socket string) (net.Listener, error) {
	if conn, err := net.Dial("unix", socket); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another process listens on %s", socket)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is there, and no socket", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	before := syscall.Umask(0o117)
	defer syscall.Umask(before)
	return net.Listen("unix", socket)
}

// handler answers the requests of package device. gone is called when the device fails.
func handler(token *pkcs11.Token, gone func(error)) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, do func(context.Context, device.Message) ([]byte, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var question device.Message
			if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&question); err != nil {
				http.Error(w, "not a message", http.StatusBadRequest)
				return
			}
			data, err := do(r.Context(), question)
			switch {
			case err == nil:
				_ = json.NewEncoder(w).Encode(device.Message{Data: data}) // the client may have gone
			case errors.Is(err, pkcs11.ErrNotOurs):
				log.Print(err)
				http.Error(w, "does not unwrap", http.StatusUnprocessableEntity)
			default:
				http.Error(w, "the device does not answer", http.StatusServiceUnavailable)
				if errors.Is(err, pkcs11.ErrGone) {
					gone(err)
				}
			}
		})
	}
	answer(device.PathSecret, func(context.Context, device.Message) ([]byte, error) { return token.Secret(), nil })
	answer(device.PathWrap, func(ctx context.Context, m device.Message) ([]byte, error) { return token.Wrap(ctx, m.Data, m.Bound) })
	answer(device.PathUnwrap, func(ctx context.Context, m device.Message) ([]byte, error) {
		return token.Unwrap(ctx, m.Data, m.Bound)
	})
	return mux
}
