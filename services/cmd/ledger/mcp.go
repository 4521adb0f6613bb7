package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/mcp"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newMCP() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serves an agent over standard input and output, by the Model Context Protocol",
		Long: `Sends an agent's messages from standard input to POST /mcp of the core API at
LEDGER_URL, with the API key in LEDGER_API_KEY, and prints the answers to standard
output. With --check it tests each part, prints the results, and exits.
docs/agents.md has the set-up for each client.`,
		Example: `  LEDGER_URL=http://127.0.0.1:3001 LEDGER_API_KEY=svc_… ledger mcp --check`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, _, err := coreAndKey()
			if err != nil {
				return err
			}
			if check {
				return checkAgent(cmd.Context(), cmd.OutOrStdout(), base, agentKey)
			}
			stdio := &sdk.IOTransport{Reader: io.NopCloser(cmd.InOrStdin()), Writer: keptOpen{cmd.OutOrStdout()}}
			return mcp.NewBridge(base, agentKey).Run(cmd.Context(), stdio)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "test each part, print the results, and exit")
	return cmd
}

// coreAndKey returns the base URL of the core API and the API key of a command that calls it.
func coreAndKey() (base, key string, err error) {
	cfg, err := config.Load(environ())
	if err != nil {
		return "", "", err
	}
	// Other clients of the protocol take the address with /mcp.
	if base = strings.TrimSuffix(strings.TrimRight(cfg.AgentURL, "/"), "/mcp"); base == "" {
		base = localCore()
	}
	if cfg.AgentKey == "" {
		return "", "", fmt.Errorf("LEDGER_API_KEY is not set: make a key in the dashboard, %s/app/ under Access, see docs/agents.md", base)
	}
	return base, cfg.AgentKey, nil
}

// agentKey reads the API key. A file may have another one by now.
func agentKey() (string, error) {
	cfg, err := config.Load(environ())
	return cfg.AgentKey, err
}

// keptOpen keeps standard output open when the transport closes its writer.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// checkAgent does what an agent would do, except writing, and prints a line for each
// step.
func checkAgent(ctx context.Context, out io.Writer, base string, key func() (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ok := func(format string, args ...any) { fmt.Fprintf(out, "ok    "+format+"\n", args...) }
	failed := func(format string, args ...any) error {
		fmt.Fprintf(out, "FAIL  "+format+"\n", args...)
		return finding{}
	}
	if u, err := url.Parse(base); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		fmt.Fprintf(out, "note  %s is not https: the API key and the memories can be read on the way\n", base)
	}
	if err := answers(ctx, base+"/livez"); err != nil {
		fmt.Fprintf(out, "FAIL  %s does not answer: is the service running there? LEDGER_URL says where\n", base)
		return err
	}
	ok("%s answers", base)
	near, far := sdk.NewInMemoryTransports()
	go func() { _ = mcp.NewBridge(base, key).Run(ctx, far) }() // it ends with the session
	session, err := sdk.NewClient(&sdk.Implementation{Name: "ledger-mcp-check", Version: "1.0.0"}, nil).Connect(ctx, near, nil)
	if told, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return failed("%s", told.Message)
	}
	if err != nil {
		return failed("the Model Context Protocol: %v", err)
	}
	defer session.Close()
	ok("the API key is accepted")
	ok("the protocol's revision is %s", session.InitializeResult().ProtocolVersion)
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return failed("the list of tools: %v", err)
	}
	names := make([]string, len(tools.Tools))
	for i, tool := range tools.Tools {
		names[i] = tool.Name
	}
	ok("tools: %s", strings.Join(names, ", "))
	result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "recall", Arguments: map[string]any{"limit": 1}})
	if err != nil || result.IsError {
		return failed("recall: %v", errors.Join(err, result.GetError()))
	}
	ok("recall reads the memories")
	fmt.Fprintln(out, "all of it works; nothing was written")
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// answers asks whether a URL is answered with 200.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return nil
}
