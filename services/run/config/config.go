// Package config reads and checks the configuration of all commands. It comes only from
// the environment.
package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/memory-ledger/ledger/services/keystore"
)

// Config is every setting of every command. It is one struct because several commands
// read nearly every setting. The variable NAME_FILE names a file with the value of NAME,
// so that a secret need not be in the environment.
//
// The tags are the documentation, see [Variables]: env names the variable, envDefault is
// its default, run is the default in `ledger run` if it differs, for lists the commands
// that read it, and doc explains it.
type Config struct {
	CoreAddr      string `env:"CORE_ADDR" envDefault:"127.0.0.1:3001" for:"core-api run" doc:"listen address of the core API"`
	ExtensionAddr string `env:"EXTENSION_ADDR" envDefault:"127.0.0.1:3002" for:"extension-api run" doc:"listen address of the extension API"`
	CoreURL       string `env:"CORE_URL" for:"apis" doc:"public base URL of the core API and the dashboard, which wallets are shown; unset: 'http://' and the listen address"`
	ExtensionURL  string `env:"EXTENSION_URL" for:"apis" doc:"public base URL of the extension API, in grants' links and the sign-in domain; unset: 'http://' and the listen address"`
	OpsAddr       string `env:"OPS_ADDR" for:"projector anchorer" doc:"where '/livez', '/readyz' and '/metrics' are answered"`

	NATSURL      string `env:"NATS_URL" run:"embedded" for:"log" doc:"the log's servers"`
	NATSCreds    string `env:"NATS_CREDS" for:"log" doc:"a NATS credentials file"`
	NATSCA       string `env:"NATS_CA" for:"log" doc:"PEM file of the authorities of the servers' certificates; if set, a server without TLS is refused"`
	NATSInbox    string `env:"NATS_INBOX_PREFIX" for:"log" doc:"prefix of the subjects of answers; unset: '_INBOX_' and the URL's user, as the shipped roles need; set it with a credentials file. A projector or anchorer of the user 'projector' or 'anchorer' follows the log through that consumer, which 'ledger provision' makes"`
	NATSReplicas int    `env:"NATS_REPLICAS" for:"provision restore services" doc:"how many servers keep each message: 1, 3 or 5; unset: as now, and for new streams 3 on a cluster, 1 elsewhere"`

	DatabaseURL string `env:"DATABASE_URL" run:"private server" for:"services verify rebuild env" doc:"the PostgreSQL of the read models; its parameter pool_max_conns is the most connections of one service, 16 unless given"`

	MasterKey               string        `env:"MASTER_KEY" run:"generated once" for:"apis rewrap verify restore" doc:"32 bytes, base64, or 'unix:' and the path of the socket of ledger-pkcs11; protects all content"`
	MasterKeyPrevious       string        `env:"MASTER_KEY_PREVIOUS" for:"apis rewrap verify restore" doc:"the previous master key, while keys are being rewrapped"`
	JWTSecret               string        `env:"JWT_SECRET" run:"generated once" for:"core-api run" doc:"at least 32 bytes; signs core sessions"`
	SignInChainID           string        `env:"SIGN_IN_CHAIN_ID" envDefault:"mainnet" run:"localnet on its own chain" for:"apis" doc:"the Chain ID line of challenges, which wallets show"`
	Environment             string        `env:"ENVIRONMENT" envDefault:"development" for:"extension-api run" doc:"'production' hides underlying messages in extension errors"`
	CoreAllowedOrigins      []string      `env:"CORE_ALLOWED_ORIGINS" for:"core-api run" doc:"origins whose pages may call the core API, with commas"`
	ExtensionAllowedOrigins []string      `env:"EXTENSION_ALLOWED_ORIGINS" for:"extension-api run" doc:"origins that may call the extension API beside browser extensions, with commas"`
	ExtensionNames          []string      `env:"EXTENSION_NAMES" for:"extension-api run" doc:"names of Chrome extensions on the sign-in page: 'id=Name', with commas"`
	ExtensionSessionTTL     time.Duration `env:"EXTENSION_SESSION_TTL" envDefault:"168h" for:"extension-api run" doc:"how long an extension session lasts"`

	SolanaRPCURL        string        `env:"SOLANA_RPC_URL" run:"local chain" for:"apis anchorer verify env" doc:"the chain's JSON-RPC endpoint"`
	DashboardRPCURL     string        `env:"DASHBOARD_RPC_URL" run:"local chain" for:"core-api run" doc:"the Solana node that owners' browsers ask, so without a secret in it; unset: the dashboard checks no account"`
	AuthorityKeypair    string        `env:"AUTHORITY_KEYPAIR" run:"generated once" for:"anchorer run verify" doc:"Solana CLI keypair file of who commits"`
	CommitmentProgramID string        `env:"COMMITMENT_PROGRAM_ID" run:"deployed locally" for:"anchorer run verify" doc:"address of the commitment program"`
	LocalChain          string        `env:"LOCAL_CHAIN" envDefault:"on" for:"run" doc:"'off' keeps a local run from starting a chain of its own"`
	StakeMint           string        `env:"STAKE_MINT" for:"core-api anchorer run" doc:"address of the stake mint; with 'STAKING_PROGRAM_ID' it turns staking on"`
	StakingProgramID    string        `env:"STAKING_PROGRAM_ID" for:"core-api anchorer run" doc:"address of the staking program"`
	MinPartialUnstake   uint64        `env:"MIN_PARTIAL_UNSTAKE" envDefault:"0" for:"core-api run" doc:"smallest partial unstake, in base units"`
	StakeMaturity       time.Duration `env:"STAKE_MATURITY" envDefault:"24h" for:"core-api run" doc:"how long after a deposit a lot is mature"`

	AnchorMaxWait           time.Duration `env:"ANCHOR_MAX_WAIT" envDefault:"5m" run:"5s" for:"core-api anchorer run" doc:"a batch is cut when its oldest leaf has waited this long"`
	AnchorMaxLeaves         int           `env:"ANCHOR_MAX_LEAVES" envDefault:"1024" for:"anchorer run" doc:"a batch is cut when this many leaves of an owner wait"`
	AnchorPriorityFee       uint64        `env:"ANCHOR_PRIORITY_FEE" envDefault:"0" for:"anchorer run" doc:"micro-lamports for each compute unit"`
	AnchorMaxLamportsPerDay uint64        `env:"ANCHOR_MAX_LAMPORTS_PER_DAY" envDefault:"0" for:"anchorer run" doc:"most that anchoring spends on a UTC day: fees, and rent for the accounts of new owners; 0: no bound"`

	KeyMaxAge   time.Duration // how long a data key is used before it is read again; 0: a minute
	ServiceName string        // what spans say they come from, unless OTEL_SERVICE_NAME is set

	AgentURL string `env:"LEDGER_URL" for:"mcp import" doc:"base URL of the core API; unset: that of the local run"`
	AgentKey string `env:"LEDGER_API_KEY" for:"mcp import" doc:"the agent's API key"`

	DataDir          string `env:"LEDGER_DATA_DIR" envDefault:".data" for:"run tools restore sign-in mcp import" doc:"folder of a local run"`
	LogLevel         string `env:"LOG_LEVEL" envDefault:"info" for:"services provision" doc:"'debug', 'info', 'warn' or 'error'"`
	TraceEndpoint    string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" for:"services" doc:"turns tracing on: base URL of a collector that takes OTLP over HTTP; the other 'OTEL_' variables work as OpenTelemetry specifies them"`
	BodyCacheBytes   int64  `env:"BODY_CACHE_BYTES" envDefault:"268435456" for:"apis" doc:"most bytes of opened texts and their words in memory"`
	QuotaWrites      int    `env:"QUOTA_WRITES" envDefault:"0" for:"apis" doc:"most memories that one owner writes in a minute on one replica; one more is answered 429; 0: no limit"`
	QuotaMints       int    `env:"QUOTA_MINTS" envDefault:"0" for:"apis" doc:"the same for agent cases and memory drops that are handed out"`
	QuotaKeys        int    `env:"QUOTA_KEYS" envDefault:"0" for:"core-api run" doc:"the same for API keys that are made"`
	QuotaSearches    int    `env:"QUOTA_SEARCHES" envDefault:"0" for:"apis" doc:"the same for searches, and for what agents recall"`
	QuotaBytesPerDay int64  `env:"QUOTA_BYTES_PER_DAY" envDefault:"0" for:"apis" doc:"most bytes of sealed content and metadata that one owner writes on a UTC day, drops included; one more is answered 429; 0: no limit"`
	NewOwners        string `env:"NEW_OWNERS" envDefault:"on" for:"apis" doc:"'off' takes no new owners: the first sign-in of a wallet is answered 403"`
}

// Need is something that a service requires.
type Need int

// The needs of services.
const (
	NeedLog Need = iota
	NeedDatabase
	NeedMasterKey
	NeedJWTSecret
	NeedChain
	NeedStaking // the chain, if a stake mint is configured
	// WhatIsSet requires only that the configured secrets, chain and staking are valid: a
	// local run creates the rest.
	WhatIsSet
)

// fromFiles are the variables whose value may be in a file.
var fromFiles = []string{"MASTER_KEY", "MASTER_KEY_PREVIOUS", "JWT_SECRET", "DATABASE_URL", "NATS_URL", "SOLANA_RPC_URL", "LEDGER_API_KEY"}

// Load reads the environment and reports every malformed value at once. Check reports
// missing values, because each service needs different ones.
func Load(environ []string) (Config, error) {
	vars := env.ToMap(environ)
	var errs []error
	for _, name := range fromFiles {
		path, given := vars[name+"_FILE"]
		if !given {
			continue
		}
		if vars[name] != "" {
			errs = append(errs, fmt.Errorf("%s and %s_FILE are both set", name, name))
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_FILE: %w", name, err))
			continue
		}
		vars[name] = strings.TrimRight(string(content), "\r\n")
	}
	var cfg Config
	var unread []error
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: vars}); err != nil {
		unread = plain(err)
		errs = append(errs, unread...)
	}
	cfg.setDefaults()
	for _, problem := range cfg.validate() {
		// Skip problems of a variable that could not be read: the validated value
		// is not the operator's.
		if !slices.ContainsFunc(unread, func(u error) bool { return variableIn(u) == variableIn(problem) }) {
			errs = append(errs, problem)
		}
	}
	return cfg, errors.Join(errs...)
}

// variableIn returns the variable at the start of a problem's text.
func variableIn(problem error) string {
	name, _, _ := strings.Cut(problem.Error(), ":")
	return name
}

// plain removes the values from the parser's errors: a value may be a secret in the
// wrong variable.
func plain(err error) []error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []error{err}
	}
	errs := make([]error, len(all.Errors))
	for i, e := range all.Errors {
		if parse, ok := errors.AsType[env.ParseError](e); ok {
			e = fmt.Errorf("%s: not a valid %s", variableOf(parse.Name), parse.Type)
		}
		errs[i] = e
	}
	return errs
}

// variableOf returns the environment variable of a field of Config.
func variableOf(field string) string {
	f, ok := reflect.TypeFor[Config]().FieldByName(field)
	if !ok {
		return field
	}
	return f.Tag.Get("env")
}

func (c *Config) setDefaults() {
	if c.CoreURL == "" {
		c.CoreURL = URLOf(c.CoreAddr)
	}
	if c.ExtensionURL == "" {
		c.ExtensionURL = URLOf(c.ExtensionAddr)
	}
	c.CoreURL = strings.TrimRight(c.CoreURL, "/")
	c.ExtensionURL = strings.TrimRight(c.ExtensionURL, "/")
}

// Production reports whether the environment is production, which hides the causes of
// errors.
func (c *Config) Production() bool { return strings.EqualFold(c.Environment, production) }

func (c *Config) validate() []error {
	errs := slices.Concat(c.apis(), c.servers())
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(slices.Contains([]int{0, 1, 3, 5}, c.NATSReplicas), "NATS_REPLICAS: %d is not 1, 3 or 5", c.NATSReplicas)
	must(c.AnchorMaxWait > 0, "ANCHOR_MAX_WAIT: must be positive")
	must(c.AnchorMaxLeaves >= 1, "ANCHOR_MAX_LEAVES: must be at least 1")
	must(c.LocalChain == "on" || c.LocalChain == "off", "LOCAL_CHAIN: must be on or off")
	must(c.ExtensionSessionTTL > 0, "EXTENSION_SESSION_TTL: must be positive")
	must((c.StakeMint == "") == (c.StakingProgramID == ""), "STAKE_MINT and STAKING_PROGRAM_ID: set both or neither")
	must(c.StakeMaturity >= 0, "STAKE_MATURITY: must not be negative")
	must(min(c.QuotaWrites, c.QuotaMints, c.QuotaKeys, c.QuotaSearches) >= 0 && c.QuotaBytesPerDay >= 0, "QUOTA_WRITES, QUOTA_MINTS, QUOTA_KEYS, QUOTA_SEARCHES, QUOTA_BYTES_PER_DAY: must not be negative")
	must(c.NewOwners == "on" || c.NewOwners == "off", "NEW_OWNERS: must be on or off")
	// A cache that holds nothing would still count the owners who read.
	must(c.BodyCacheBytes >= 1<<20, "BODY_CACHE_BYTES: must be at least 1048576")
	if c.TraceEndpoint != "" {
		u, err := url.Parse(c.TraceEndpoint)
		must(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "",
			"OTEL_EXPORTER_OTLP_ENDPOINT: not an http or https URL without query and fragment")
	}
	return errs
}

// Check reports every needed value that is missing or malformed.
func (c *Config) Check(needs ...Need) error {
	var errs []error
	for _, need := range needs {
		errs = append(errs, c.problems(need)...)
	}
	return errors.Join(errs...)
}

func (c *Config) problems(need Need) []error {
	switch need {
	case NeedLog:
		return []error{required("NATS_URL", c.NATSURL)}
	case NeedDatabase:
		return []error{required("DATABASE_URL", c.DatabaseURL)}
	case NeedMasterKey:
		_, err := c.MasterKeys()
		return []error{err}
	case NeedJWTSecret:
		err := required("JWT_SECRET", c.JWTSecret)
		if err == nil && len(c.JWTSecret) < 32 {
			err = fmt.Errorf("JWT_SECRET: %d bytes, need at least 32", len(c.JWTSecret))
		}
		return []error{err}
	case NeedStaking:
		if c.StakeMint == "" {
			return nil
		}
		_, errURL := c.Chain()
		_, _, err := c.Stake()
		return []error{errURL, err}
	case NeedChain:
		_, errURL := c.Chain()
		_, errKey := c.Authority()
		_, errProgram := c.Program()
		return []error{errURL, errKey, errProgram}
	case WhatIsSet:
		_, errMint := address("STAKE_MINT", c.StakeMint)
		_, errStaking := address("STAKING_PROGRAM_ID", c.StakingProgramID)
		all := slices.Concat(c.problems(NeedMasterKey), c.problems(NeedJWTSecret), c.problems(NeedChain), []error{errMint, errStaking})
		return slices.DeleteFunc(all, func(err error) bool { return errors.Is(err, errNotSet) })
	}
	return nil
}

var errNotSet = errors.New("not set")

func required(name, value string) error {
	if value == "" {
		return fmt.Errorf("%s: %w", name, errNotSet)
	}
	return nil
}

// MasterKeySetting is a master key as it is configured.
type MasterKeySetting struct {
	Key    keystore.MasterKey
	Socket string // of ledger-pkcs11, if the key is in a device
}

// MasterKeys returns the master keys. The first one wraps.
func (c *Config) MasterKeys() ([]MasterKeySetting, error) {
	first, err := ParseMasterKey("MASTER_KEY", c.MasterKey)
	if err != nil {
		return nil, err
	}
	keys := []MasterKeySetting{first}
	if c.MasterKeyPrevious != "" {
		previous, err := ParseMasterKey("MASTER_KEY_PREVIOUS", c.MasterKeyPrevious)
		if err != nil {
			return nil, err
		}
		keys = append(keys, previous)
	}
	return keys, nil
}

// ParseMasterKey reads a master key as variables and files hold it. name says in errors
// where the text is from.
func ParseMasterKey(name, text string) (key MasterKeySetting, err error) {
	if err := required(name, text); err != nil {
		return key, err
	}
	if socket, is := strings.CutPrefix(text, "unix:"); is {
		if !filepath.IsAbs(socket) {
			return key, fmt.Errorf("%s: unix: must be followed by the absolute path of a socket", name)
		}
		return MasterKeySetting{Socket: socket}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != keystore.KeySize {
		return key, fmt.Errorf("%s: not 32 bytes in base64", name)
	}
	return MasterKeySetting{Key: keystore.MasterKey(raw)}, nil
}

//go:generate go run ./write ../../..

// Variable is the documentation of one environment variable.
type Variable struct {
	Name       string
	Default    string
	RunDefault string   // in `ledger run`, if it differs
	Commands   []string // the commands of ledger that read it
	Meaning    string   // values and variables in single quotes
	File       bool     // Name_FILE may name a file with the value
}

// groups are names of several commands in the tags of Config.
var groups = map[string][]string{
	"apis":     {"core-api", "extension-api", "run"},
	"services": {"core-api", "extension-api", "projector", "anchorer", "run"},
	"tools":    {"tail", "verify", "rebuild", "backup", "rewrap", "check-key", "forget", "env"},
	"log": {
		"core-api", "extension-api", "projector", "anchorer", "run",
		"tail", "verify", "rebuild", "backup", "restore", "rewrap", "check-key", "forget", "provision", "env",
	},
}

// Variables lists all variables, in the order of Config.
func Variables() []Variable {
	var all []Variable
	for field := range reflect.TypeFor[Config]().Fields() {
		name, read := field.Tag.Lookup("env")
		if !read {
			continue // a command sets it
		}
		v := Variable{
			Name: name, Default: field.Tag.Get("envDefault"), RunDefault: field.Tag.Get("run"),
			Meaning: field.Tag.Get("doc"), File: slices.Contains(fromFiles, name),
		}
		for word := range strings.FieldsSeq(field.Tag.Get("for")) {
			if several, isGroup := groups[word]; isGroup {
				v.Commands = append(v.Commands, several...)
			} else {
				v.Commands = append(v.Commands, word)
			}
		}
		slices.Sort(v.Commands)
		v.Commands = slices.Compact(v.Commands)
		all = append(all, v)
	}
	return all
}

// VariablesOf lists the variables that a command reads.
func VariablesOf(command string) []Variable {
	return slices.DeleteFunc(Variables(), func(v Variable) bool { return !slices.Contains(v.Commands, command) })
}
