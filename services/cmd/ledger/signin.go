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
	var keypair, url, public string
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
			if keypair == "" {
				return errors.New("--keypair is missing: the wallet's file, which is made if it is not there")
			}
			if url == "" {
				url = localCore()
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			owner, token, err := signIn(ctx, url, cmp.Or(public, url), keypair)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "signed in as   ", owner)
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		},
	}
	stringFlag(cmd.Flags(), &keypair, "keypair", "file of the wallet")
	stringFlag(cmd.Flags(), &url, "url", "base URL of an API; default: the core API of the local run")
	stringFlag(cmd.Flags(), &public, "public-url", "the API's own public base URL, if --url is another address of it")
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

// signIn uses the Go client, which signs only the text that belongs to this service.
func signIn(ctx context.Context, url, public, keypair string) (owner, token string, err error) {
	if err := os.MkdirAll(filepath.Dir(keypair), 0o700); err != nil {
		return "", "", err
	}
	if err := assembly.EnsureKeypair(keypair); err != nil {
		return "", "", err
	}
	cfg := config.Config{AuthorityKeypair: keypair}
	key, err := cfg.Authority()
	if err != nil {
		return "", "", fmt.Errorf("--keypair: %s holds no Solana key pair", keypair)
	}
	client := memoryledger.New(url, memoryledger.WithPublicURL(public), memoryledger.WithRetries(0, 0))
	session, err := client.SignIn(ctx, memoryledger.KeyWallet(key))
	if errors.Is(err, memoryledger.ErrChallenge) {
		err = fmt.Errorf("%w (here, with --public-url)", err)
	}
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", url, err)
	}
	return key.PublicKey().String(), verify.Printable(session.Token), nil
}

// ownerFlags say how a command signs in as an owner.
type ownerFlags struct{ keypair, url, public string }

func (f *ownerFlags) add(flags *pflag.FlagSet) {
	stringFlag(flags, &f.keypair, "keypair", "file of the owner's wallet")
	stringFlag(flags, &f.url, "url", "base URL of the core API; default: that of the local run")
	stringFlag(flags, &f.public, "public-url", "the API's own public base URL, if --url is another address of it")
}

func (f ownerFlags) signIn(ctx context.Context) (client *memoryledger.Client, owner string, err error) {
	if f.keypair == "" {
		return nil, "", errors.New("--keypair is missing: the owner's wallet")
	}
	url := cmp.Or(f.url, localCore())
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	owner, token, err := signIn(ctx, url, cmp.Or(f.public, url), f.keypair)
	if err != nil {
		return nil, "", err
	}
	return memoryledger.New(url, memoryledger.WithSession(token)), owner, nil
}
