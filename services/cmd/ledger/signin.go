package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

const (
	signInTimeout = 30 * time.Second
	maxSignInBody = 64 << 10 // bytes of an answer
)

func newSignIn() *cobra.Command {
	var keypair, url string
	cmd := &cobra.Command{
		Use:   "sign-in",
		Short: "Signs in with a wallet in a file, and prints the session's token",
		Long: `Signs in with a keypair file of the Solana command line, and prints the session's
token. If the file is missing, it makes a new keypair. This is for scripts and for
trying things out: people sign in with their own wallet.`,
		Example: `  TOKEN=$(ledger sign-in --keypair wallet.json)
  curl http://127.0.0.1:3001/memories -H "Authorization: Bearer $TOKEN"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keypair == "" {
				return errors.New("--keypair is missing: the wallet's file, which is made if it is not there")
			}
			if url == "" {
				url = localCore()
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), signInTimeout)
			defer cancel()
			owner, token, err := signIn(ctx, url, keypair)
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

func signIn(ctx context.Context, url, keypair string) (owner, token string, err error) {
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
	owner = key.PublicKey().String()
	var challenge struct{ Message string }
	if err := post(ctx, url+"/auth/challenge", map[string]string{"publicKey": owner}, &challenge); err != nil {
		return "", "", err
	}
	signature, err := key.Sign([]byte(challenge.Message))
	if err != nil {
		return "", "", err
	}
	var session struct{ Token string }
	err = post(ctx, url+"/auth/verify", map[string]string{
		"publicKey": owner, "message": challenge.Message, "signature": solana.Signature(signature).String(),
	}, &session)
	return owner, session.Token, err
}

// post sends JSON and decodes the answer into to. A refusal is an error with the
// service's own message.
func post(ctx context.Context, url string, body, to any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", url, err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxSignInBody))
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if answer.StatusCode/100 != 2 {
		var refusal struct{ Error string }
		_ = json.Unmarshal(said, &refusal) // if not JSON, the status is enough
		return fmt.Errorf("%s: %s %s", url, answer.Status, strings.TrimSpace(refusal.Error))
	}
	return json.Unmarshal(said, to)
}
