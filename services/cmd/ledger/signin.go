package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memory-ledger/ledger/events/verify"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newSignIn() *cobra.Command {
	var wallet walletFlags
	cmd := &cobra.Command{
		Use:   "sign-in",
		Short: "Signs in with a wallet in a file, and prints the session's token",
		Long: `Signs in with a keypair file of the Solana command line, and prints the session's
token. If the file is missing, it makes a new keypair. This is for scripts and for
trying things out: people sign in with their own wallet.

It signs only the text that the service at --url has for a sign-in. Where --url is not
the address that the service calls its own (CORE_URL, EXTENSION_URL), name that with
--public-url.`,
		Example: `  TOKEN=$(ledger sign-in --keypair wallet.json)
  curl http://127.0.0.1:3001/memories -H "Authorization: Bearer $TOKEN"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wallet.keypair != "" {
				err := os.MkdirAll(filepath.Dir(wallet.keypair), 0o700)
				if err == nil {
					err = assembly.EnsureKeypair(wallet.keypair)
				}
				if err != nil {
					return err
				}
			}
			_, owner, token, err := wallet.signIn(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "signed in as   ", owner)
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		},
	}
	wallet.add(cmd.Flags())
	return cmd
}

// localCore returns the core API's URL of the local run, or its default.
func localCore() string {
	cfg, run, err := loadBeside()
	switch {
	case err == nil && run != nil && run.CoreURL != "":
		return run.CoreURL
	case err == nil:
		return cfg.CoreURL
	}
	return config.URLOf("127.0.0.1:3001")
}

// walletFlags say where a command signs in, and with which wallet.
type walletFlags struct{ keypair, url, public string }

func (f *walletFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.keypair, "keypair", "", "file of the wallet")
	flags.StringVar(&f.url, "url", "", "base URL of an API; default: the core API of the local run")
	flags.StringVar(&f.public, "public-url", "", "the API's own public base URL, if --url is another address of it")
}

// signIn returns the API's URL, the owner, and a session's token. It uses the Go client,
// which signs only the text that belongs to this service.
func (f walletFlags) signIn(ctx context.Context) (url, owner, token string, err error) {
	if f.keypair == "" {
		return "", "", "", errors.New("--keypair is missing: the file of the wallet")
	}
	url = cmp.Or(f.url, localCore())
	cfg := config.Config{AuthorityKeypair: f.keypair}
	key, err := cfg.Authority()
	if err != nil {
		return "", "", "", fmt.Errorf("--keypair: %s holds no Solana key pair", f.keypair)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := memoryledger.New(url, memoryledger.WithPublicURL(cmp.Or(f.public, url)), memoryledger.WithRetries(0, 0))
	session, err := client.SignIn(ctx, memoryledger.KeyWallet(key))
	if errors.Is(err, memoryledger.ErrChallenge) {
		err = fmt.Errorf("%w (here, with --public-url)", err)
	}
	if err != nil {
		return "", "", "", fmt.Errorf("%s: %w", url, err)
	}
	return url, key.PublicKey().String(), verify.Printable(session.Token), nil
}

// client returns a client that is signed in, and its owner.
func (f walletFlags) client(ctx context.Context) (*memoryledger.Client, string, error) {
	url, owner, token, err := f.signIn(ctx)
	if err != nil {
		return nil, "", err
	}
	return memoryledger.New(url, memoryledger.WithSession(token)), owner, nil
}
