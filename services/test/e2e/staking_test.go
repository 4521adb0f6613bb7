package e2e_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/token"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/readmodel/stakes"
	"github.com/memory-ledger/ledger/projections/schema"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// treasury is a local chain with a mint, and a stack's settings for it.
type treasury struct{ *stacktest.Treasury }

func newTreasury(t *testing.T, tokenProgram solana.PublicKey) *treasury {
	t.Helper()
	return &treasury{stacktest.NewTreasury(t, tokenProgram)}
}

// configure turns staking on.
func (y *treasury) configure(c *config.Config) {
	c.SolanaRPCURL, c.StakeMint, c.StakingProgramID = y.URL(), y.Mint.String(), program.LocalID.String()
	c.MinPartialUnstake, c.StakeMaturity = 100, 24*time.Hour
}

// anchoring also turns anchoring on, so that the anchorer and the watchers write to the
// same family of an owner.
func (y *treasury) anchoring(c *config.Config) {
	y.configure(c)
	c.AuthorityKeypair, c.CommitmentProgramID = stacktest.KeypairFile(y.T, y.Key), program.LocalID.String()
	c.AnchorMaxWait = time.Second
}

// hoursAgo sets the chain's clock back: the next transaction deposits at that time.
func (y *treasury) hoursAgo(hours int) {
	y.Helper()
	y.Must(y.Fault(y.Context(), localchaintest.Clock(time.Now().Add(-time.Duration(hours)*time.Hour).Unix())))
}

// staker is a wallet with a session.
type staker struct {
	*treasury
	stacktest.Wallet
	core    *stacktest.Client
	session stacktest.Header
}

// ask gets an unsigned transaction and checks that only the wallet's signature is
// missing.
func (s *staker) ask(route, amount string) *solana.Transaction {
	s.Helper()
	answer := s.core.Expect(200, "POST", "/staking/"+route, map[string]any{"amount": amount}, s.session)
	raw, err := base64.StdEncoding.DecodeString(answer.Text("transaction"))
	s.Must(err)
	tx, err := solana.TransactionFromBytes(raw)
	s.Must(err)
	header := tx.Message.Header
	if header.NumRequiredSignatures != 1 || len(tx.Signatures) != 1 || !tx.Signatures[0].IsZero() ||
		tx.Message.AccountKeys[0].String() != s.PublicKey || tx.Message.RecentBlockhash.String() != answer.Text("blockhash") ||
		answer.Number("lastValidBlockHeight") == 0 || route == "unstake" && len(tx.Message.Instructions) != 2 {
		s.Errorf("%s: %s", route, tx)
	}
	// A client makes the same check before its wallet signs.
	units, err := strconv.ParseUint(amount, 10, 64)
	s.Must(err)
	move := map[string]memoryledger.StakeMove{"stake": memoryledger.MoveStake, "unstake": memoryledger.MoveUnstake}[route]
	s.Must(memoryledger.StakingProgram{ProgramID: program.LocalID.String(), Mint: s.Mint.String()}.CheckTransaction(answer.Text("transaction"), s.PublicKey, move, units))
	return tx
}

// move asks for a transaction, signs it as a wallet would, and sends it.
func (s *staker) move(route, amount string) string {
	s.Helper()
	return s.sign(s.ask(route, amount))
}

func (s *staker) sign(tx *solana.Transaction) string {
	s.Helper()
	return s.LandFor(s.Wallet, tx)
}

func (s *staker) status() core.StakingStatus {
	s.Helper()
	return decode[core.StakingStatus](s.T, s.core.Expect(200, "GET", "/staking/status", nil, s.session).Body)
}

// holds checks a status: amounts and lots as "amount mature", oldest first.
func (s *staker) holds(staked, mature, cooling, wallet string, lots ...string) core.StakingStatus {
	s.Helper()
	status := s.status()
	var got []string
	for _, l := range status.Lots {
		got = append(got, fmt.Sprint(l.Amount, " ", l.Mature))
		if l.TxSignature == nil || l.MaturesAt != l.DepositedAt.Add(24*time.Hour) {
			s.Errorf("lot %+v", l)
		}
	}
	if !status.Live || !status.Reconciled || status.Staked != staked || status.Mature != mature || status.Cooling != cooling ||
		status.WalletBalance != wallet || strings.Join(got, ", ") != strings.Join(lots, ", ") ||
		(status.NextMatureAt == nil) != (cooling == "0") {
		s.Errorf("status %+v, lots %q\nwant staked %s, mature %s, cooling %s, wallet %s, lots %q", status, got, staked, mature, cooling, wallet, lots)
	}
	return status
}

func (s *staker) refused(status int, route string, amounts ...any) {
	s.Helper()
	for _, amount := range amounts {
		s.core.Expect(status, "POST", "/staking/"+route, map[string]any{"amount": amount}, s.session)
	}
}

func newStaker(y *treasury, core *stacktest.Client) *staker {
	y.Helper()
	s := &staker{treasury: y, Wallet: stacktest.NewWallet(), core: core}
	s.session = core.SignIn(s.Wallet)
	y.FundWallet(solana.MustPublicKeyFromBase58(s.PublicKey))
	return s
}

// recorded waits until the read model has so many movements of the wallet.
func (s *staker) recorded(databaseURL string, want int) []stakes.Movement {
	s.Helper()
	pool, err := schema.OpenPool(s.Context(), databaseURL, schema.Live, 2)
	s.Must(err)
	defer pool.Close()
	var list []stakes.Movement
	testkit.Await(s, "all movements are recorded", func() bool {
		list, err = stakes.List(s.Context(), pool, events.Owner(s.PublicKey))
		s.Must(err)
		return len(list) >= want
	})
	if len(list) != want {
		s.Fatalf("%d movements recorded, want %d: %+v", len(list), want, list)
	}
	return list
}

var notAmounts = []any{
	"", "0", "01", "-1", "+1", " 1", "1 ", "1e3", "1.5", "0x1", "18446744073709551616", "1_0", 1, 1.5, nil, true, []any{}, map[string]any{},
}

// TestStakingFromEndToEnd is a wallet's life with staking. Then the same state is built
// from the log alone.
func TestStakingFromEndToEnd(t *testing.T) {
	t.Parallel()
	y := newTreasury(t, solana.TokenProgramID)
	database := pgtest.Database(t)
	stack := stacktest.Start(t, stacktest.Options{Core: 2, DatabaseURL: database, Configure: y.anchoring})
	s := newStaker(y, stack.Core[0])
	wallet := solana.MustPublicKeyFromBase58(s.PublicKey)

	if empty := s.holds("0", "0", "0", "0"); empty.Decimals != 6 || *empty.Mint != y.Mint.String() || empty.MinPartialUnstake != "100" || empty.MaturityMs != 86400000 {
		t.Errorf("%+v", empty)
	}
	tokens := y.Give(wallet, 1000)
	early := s.core.Expect(201, "POST", "/memories", map[string]any{"content": "before", "metadata": map[string]any{}}, s.session)
	y.hoursAgo(30)
	s.move("stake", "600")
	s.holds("600", "600", "0", "400", "600 true")
	y.hoursAgo(10)
	second := s.move("stake", "300")
	status := s.holds("900", "600", "300", "100", "600 true", "300 false")
	if *status.Lots[1].TxSignature != second || *status.NextMatureAt != status.Lots[1].MaturesAt {
		t.Errorf("%+v", status)
	}

	s.refused(400, "stake", notAmounts...)
	s.refused(400, "unstake", notAmounts...)
	s.refused(400, "unstake", "901", "18446744073709551615", "99", "1")
	stack.Core[1].Expect(400, "POST", "/staking/unstake", map[string]any{"amount": "99"}, s.session)

	// Another account adds to the vault: the amount belongs to the wallet, and is a lot.
	vault := solana.MustPublicKeyFromBase58(*status.Vault)
	y.SendOwn(token.NewMintToInstruction(50, y.Mint, vault, y.Key.PublicKey(), nil).Build())
	s.holds("950", "600", "350", "100", "600 true", "300 false", "50 false")

	s.move("unstake", "900") // the youngest first; the rest is below the minimum
	s.holds("50", "50", "0", "1000", "50 true")
	s.refused(400, "unstake", "49")

	// The wallet's token account is closed. Unstaking everything creates it again.
	s.sign(emptied(s, tokens))
	s.holds("50", "50", "0", "0", "50 true")
	s.move("unstake", "50")
	s.holds("0", "0", "0", "50")

	y.hoursAgo(0)
	s.move("stake", "50")
	s.core = stack.Core[1]
	before := s.holds("50", "0", "50", "0", "50 false")
	first := s.recorded(database, 6)
	late := s.core.Expect(201, "POST", "/memories", map[string]any{"content": "after", "metadata": map[string]any{}}, s.session)
	s.core.AwaitAnchored(s.session, early.Text("id"))
	s.core.AwaitAnchored(s.session, late.Text("id"))
	replayed(s, stack, first, before)
}

// emptied returns a transaction with which the wallet burns its tokens and closes its
// token account.
func emptied(s *staker, tokens solana.PublicKey) *solana.Transaction {
	s.Helper()
	wallet := solana.MustPublicKeyFromBase58(s.PublicKey)
	var latest struct {
		Value struct{ Blockhash solana.Hash }
	}
	s.Must(s.Call(s.Context(), &latest, "getLatestBlockhash"))
	tx, err := solana.NewTransaction([]solana.Instruction{
		token.NewBurnInstruction(1000, tokens, s.Mint, wallet, nil).Build(),
		token.NewCloseAccountInstruction(tokens, wallet, wallet, nil).Build(),
	}, latest.Value.Blockhash, solana.TransactionPayer(wallet))
	s.Must(err)
	return tx
}

// replayed builds the read models again from the log. It checks that they have the same
// rows and give the same answers, even while the vault's history can't be read.
func replayed(s *staker, stack *stacktest.Stack, want []stakes.Movement, before core.StakingStatus) {
	s.Helper()
	stack.Stop()
	database := pgtest.Database(s.T)
	again := stacktest.Start(s.T, stacktest.Options{NATSURL: stack.NATSURL, DatabaseURL: database, Configure: s.configure})
	got := s.recorded(database, len(want))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("replayed %+v\nwant %+v", got, want)
	}
	s.core = again.Core[0]
	s.Must(s.Fault(s.Context(), localchaintest.Fail("getSignaturesForAddress", 1000)))
	status := s.status()
	if status.Reconciled || status.Staked != "50" || fmt.Sprint(status.Lots[0].DepositedAt) != fmt.Sprint(before.Lots[0].DepositedAt) {
		s.Errorf("from the log alone: %+v", status)
	}
	s.Must(s.Fault(s.Context(), localchaintest.Fail("getSignaturesForAddress", 0)))
	s.holds("50", "0", "50", "0", "50 false")
}

// TestStakingWithoutAChain: a value that can't be read is unknown, never zero.
func TestStakingWithoutAChain(t *testing.T) {
	t.Parallel()
	y := newTreasury(t, solana.TokenProgramID)
	stack := stacktest.Start(t, stacktest.Options{Configure: y.configure})
	s := newStaker(y, stack.Core[0])
	y.Give(solana.MustPublicKeyFromBase58(s.PublicKey), 1000)
	s.move("stake", "500")

	fault := func(f localchaintest.Fault) { y.Helper(); y.Must(y.Fault(y.Context(), f)) }
	fault(localchaintest.Fail("getMultipleAccounts", 3))
	s.core.Expect(503, "GET", "/staking/status", nil, s.session)
	s.refused(503, "unstake", "500", "1")
	fault(localchaintest.Fail("getLatestBlockhash", 2))
	s.refused(503, "stake", "1")
	s.refused(503, "unstake", "500")
	// A wrong amount is refused even while the chain is silent.
	s.refused(400, "unstake", "0")

	// An account that is not a token account does not count as zero either.
	s.holds("500", "0", "500", "500", "500 false")
	vault := *s.status().Vault
	fault(localchaintest.SetAccount(vault, solana.LAMPORTS_PER_SOL, program.LocalID.String(), make([]byte, 165)))
	testkit.Await(t, "the forced account is confirmed", func() bool {
		return s.core.Do("GET", "/staking/status", nil, s.session).Status == 503
	})
	s.refused(503, "unstake", "500")

	fault(localchaintest.Down(true))
	s.core.Expect(503, "GET", "/staking/status", nil, s.session)
	s.refused(503, "unstake", "500")
	s.refused(503, "stake", "1")
	s.core.Expect(201, "POST", "/memories", map[string]any{"content": "goes on"}, s.session)
}

// TestStakingRefusesAMintAtStart: settings that staking can't work with are reported when
// the service starts, not to its users.
func TestStakingRefusesAMintAtStart(t *testing.T) {
	t.Parallel()
	y := newTreasury(t, solana.Token2022ProgramID)
	stack := stacktest.Start(t, stacktest.Options{}) // dormant
	serve := func(change func(*config.Config)) error {
		cfg := stack.Config
		y.configure(&cfg)
		change(&cfg)
		base, err := assembly.NewBase(t.Context(), cfg, slog.New(slog.DiscardHandler), assembly.Dial(cfg))
		y.Must(err)
		defer base.Close()
		deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		y.Must(err)
		defer listener.Close()
		return deciding.ServeCore(t.Context(), listener)
	}
	mint, nowhere := y.NewMint(solana.TokenProgramID).String(), stacktest.NewKey(t).PublicKey().String()
	for want, change := range map[string]func(*config.Config){
		"Token-2022":          func(*config.Config) {},
		"no SPL Token mint":   func(c *config.Config) { c.StakeMint = y.Key.PublicKey().String() },
		"no program":          func(c *config.Config) { c.StakeMint, c.StakingProgramID = mint, nowhere },
		"STAKE_MINT: not a":   func(c *config.Config) { c.StakeMint = strings.Repeat("1", 100_000) },
		"STAKING_PROGRAM_ID:": func(c *config.Config) { c.StakingProgramID = "no" },
		"SOLANA_RPC_URL":      func(c *config.Config) { c.SolanaRPCURL = "ftp://x" },
	} {
		testkit.Await(t, "it is refused as: "+want, func() bool { // once the forced mints are confirmed
			err := serve(change)
			return err != nil && strings.Contains(err.Error(), want)
		})
	}
}
