package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// plainKey is a data key for tests: it seals content by adding a prefix.
type plainKey struct{}

func (plainKey) Erasures() int { return 0 }

func (plainKey) LeafSecret(events.Salt, *events.Via) (leaf.Secret, error) { return leaf.Secret{1}, nil }

func (plainKey) Destroyed(uint64) bool { return false }

func (plainKey) Open(_ int, _ uint64, _ string, sealed []byte) (string, error) {
	text, ok := strings.CutPrefix(string(sealed), "sealed ")
	if !ok {
		return "", errors.New("does not open")
	}
	return text, nil
}

func plainKeys(context.Context, events.Owner) (audit.Key, error) { return plainKey{}, nil }

// genuine returns an owner's log with correct leaves: sign-in, ten memories, a batch over
// eight of them, two more memories.
func genuine(t *testing.T, n int) (said []fixture.Message, leaves []events.Hash) {
	t.Helper()
	a := fixture.NumberedActor(n)
	said = append(said, a.Say(&events.OwnerRegistered{UserID: fixture.UUID()},
		&events.SessionIssued{SessionID: fixture.UUID(), Audience: events.AudienceCore, ExpiresAt: events.At(time.Now())}))
	write := func(i int) {
		m := a.Memory(`{"a":1}`)
		content := fmt.Sprint("memory ", i)
		metadata, err := canonical.Canonicalize(m.Metadata)
		must(t, err)
		l, err := leaf.New(leaf.Secret{1}, leaf.Memory{Content: content, Metadata: metadata, Owner: a.Owner})
		must(t, err)
		m.LeafHash, err = l.Hash()
		must(t, err)
		m.Sealed = []byte("sealed " + content)
		leaves = append(leaves, m.LeafHash)
		said = append(said, a.Say(m))
	}
	for i := range 10 {
		write(i)
	}
	id, root := fixture.UUID(), tree.RootOf(leaves[:8])
	said = append(said, a.Say(&events.BatchCut{BatchID: id, Size: 8, Root: root}),
		a.Say(&events.BatchSubmitted{BatchID: id, Size: 8, Root: root, Signature: id, Blockhash: "b", Transaction: []byte("t")}),
		a.Say(&events.BatchConfirmed{BatchID: id, Size: 8, Root: root, Signature: id, Slot: 1, Cluster: "c", ProgramID: "p", Account: "a"}))
	write(10)
	write(11)
	return said, leaves
}

// onchain returns an account that holds the first size leaves, at the place that
// genuine's confirmation names.
func onchain(size int, leaves []events.Hash) *audit.Commitment {
	return &audit.Commitment{Size: uint64(size), Root: tree.RootOf(leaves[:size]), Slot: 1, Cluster: "c", ProgramID: "p", Account: "a"}
}

// chain is a chain for tests.
type chain map[events.Owner]*audit.Commitment

// GenesisHash returns the hash of the chain that the genuine log was committed on.
func (c chain) GenesisHash(context.Context) (string, error) { return "c", nil }

func (c chain) Commitments(_ context.Context, owners []events.Owner) ([]*audit.Commitment, uint64, error) {
	all := make([]*audit.Commitment, len(owners))
	for i, o := range owners {
		all[i] = c[o]
	}
	return all, math.MaxUint64, nil
}

// raw is an encoded message, for tampering.
type raw struct{ subject, payload string }

func raws(t *testing.T, said []fixture.Message) []raw {
	t.Helper()
	all := make([]raw, len(said))
	for i, m := range said {
		all[i] = raw{m.Subject(), string(m.Payload(t))}
	}
	return all
}

// forged returns a fresh log of raw messages.
func forged(t *testing.T, messages []raw) *fixture.Log {
	t.Helper()
	log := fixture.NewLog(t)
	for _, m := range messages {
		log.PublishRaw(t, m.subject, []byte(m.payload))
	}
	return log
}

func replace(m raw, old, with string) raw {
	return raw{m.subject, strings.Replace(m.payload, old, with, 1)}
}

// TestTamperedLogs: an audit finds tampering with the log, as docs/audit.md says. The
// last two fields say which audit finds it, and by which check.
func TestTamperedLogs(t *testing.T) {
	t.Parallel()
	said, leaves := genuine(t, 1)
	owner, other := fixture.NumberedActor(1).Owner, fixture.NumberedActor(2).Owner
	good := raws(t, said)
	committed := chain{owner: onchain(12, leaves)}
	const nobody, anybody, keys, chained = "", "log", "keys", "chain"
	for name, c := range map[string]struct {
		tamper func(m []raw) []raw
		who    string // the least capable audit that finds it
		check  audit.Check
	}{
		"nothing":                          {func(m []raw) []raw { return m }, nobody, ""},
		"a message taken out":              {func(m []raw) []raw { return slices.Delete(m, 4, 5) }, anybody, audit.CheckVersion},
		"the first message taken out":      {func(m []raw) []raw { return m[1:] }, anybody, audit.CheckVersion},
		"two messages swapped":             {func(m []raw) []raw { m[4], m[5] = m[5], m[4]; return m }, anybody, audit.CheckVersion},
		"a message twice":                  {func(m []raw) []raw { return slices.Insert(m, 5, m[4]) }, anybody, audit.CheckUnique},
		"a leaf hash altered":              {func(m []raw) []raw { m[2] = replace(m[2], leaves[1].String(), fixture.Hash("x").String()); return m }, anybody, audit.CheckBatch},
		"a leaf hash altered, not batched": {func(m []raw) []raw { m[10] = replace(m[10], leaves[9].String(), fixture.Hash("x").String()); return m }, keys, audit.CheckLeaf},
		"the same, without keys":           {func(m []raw) []raw { m[10] = replace(m[10], leaves[9].String(), fixture.Hash("x").String()); return m }, chained, audit.CheckOnchain},
		"content altered": {func(m []raw) []raw {
			m[3] = replace(m[3], `"sealed":"c2VhbGVk`, `"sealed":"c2VhbGVl`)
			return m
		}, keys, audit.CheckLeaf},
		"metadata altered":       {func(m []raw) []raw { m[3] = replace(m[3], `{"a":1}`, `{"a":2}`); return m }, keys, audit.CheckLeaf},
		"metadata not canonical": {func(m []raw) []raw { m[3] = replace(m[3], `{"a":1}`, `{"a": 1}`); return m }, keys, audit.CheckLeaf},
		"a root altered": {func(m []raw) []raw {
			m[11] = replace(m[11], tree.RootOf(leaves[:8]).String(), fixture.Hash("x").String())
			return m
		}, anybody, audit.CheckBatch},
		"a message moved to another": {func(m []raw) []raw {
			m[4].subject = strings.Replace(m[4].subject, string(owner), string(other), 1)
			return m
		}, anybody, audit.CheckDecode},
		"a message moved to the other family": {func(m []raw) []raw {
			m[4].subject = events.Subject{Family: events.FamilyChain, Owner: owner, Kind: events.KindMemory}.String()
			return m
		}, anybody, audit.CheckDecode},
		"a leaf of an unknown version": {func(m []raw) []raw {
			if m[3] = replace(m[3], `"leafVersion":1`, `"leafVersion":2`); m[3] == good[3] {
				t.Errorf("nothing was altered: %s", m[3].payload)
			}
			return m
		}, keys, audit.CheckLeaf},
		"a message under another kind":                    {func(m []raw) []raw { m[4].subject = strings.Replace(m[4].subject, ".memory", ".grant", 1); return m }, anybody, audit.CheckDecode},
		"a message cut off":                               {func(m []raw) []raw { m[4].payload = m[4].payload[:90]; return m }, anybody, audit.CheckDecode},
		"an unknown type":                                 {func(m []raw) []raw { m[4] = replace(m[4], `"MemoryWritten"`, `"MemoryWritted"`); return m }, anybody, audit.CheckDecode},
		"the end taken away":                              {func(m []raw) []raw { return m[:len(m)-1] }, chained, audit.CheckOnchain},
		"the batch's confirmation and the end taken away": {func(m []raw) []raw { return m[:11] }, chained, audit.CheckOnchain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := forged(t, c.tamper(slices.Clone(good)))
			for _, try := range []struct {
				who string
				cfg audit.Config
			}{
				{anybody, audit.Config{Log: log.Replayed()}},
				{keys, audit.Config{Log: log.Replayed(), Keys: plainKeys}},
				{chained, audit.Config{Log: log.Replayed(), Chain: committed}},
			} {
				found, _ := verify(t, try.cfg)
				sees := slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Check == c.check })
				switch {
				case c.who == nobody || (try.who == anybody && c.who != anybody):
					if len(found) > 0 {
						t.Errorf("with %s: found %v, where nothing can be seen", try.who, found)
					}
				case !sees && (c.who == anybody || c.who == try.who):
					t.Errorf("with %s: found %v, want a finding of %q", try.who, found, c.check)
				}
			}
		})
	}
}

// TestBrokenRulesAreFound: an audit finds a log that breaks a rule.
func TestBrokenRulesAreFound(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) events.Timestamp {
		return events.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(d))
	}
	id, second := fixture.UUID(), fixture.UUID()
	mint := func(id string, uses int, expires events.Timestamp) events.Data {
		return &events.GrantMinted{GrantID: id, Kind: events.GrantCase, TokenHash: fixture.Hash(id), ExpiresAt: expires, MaxUses: uses}
	}
	use := func(use, left int) events.Data {
		return &events.GrantConsumed{GrantID: id, Kind: events.GrantCase, Use: use, Remaining: left}
	}
	revoke := &events.GrantRevoked{GrantID: id, Kind: events.GrantCase, Reason: events.RevokedByOwner}
	key := &events.ApiKeyCreated{KeyID: id, KeyHash: fixture.Hash(id), Prefix: "svc_", Label: "l"}
	soon := at(2 * time.Millisecond)
	expired := &events.ApiKeyCreated{KeyID: id, KeyHash: fixture.Hash(id), Prefix: "svc_", Label: "l", ExpiresAt: &soon}
	hour := at(time.Hour)
	same := fixture.Hash("key")
	imported := &events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`), Imported: &events.Imported{ID: second, CreatedAt: soon}}
	started, finished := &events.ImportStarted{Size: 1}, &events.ImportFinished{Reason: events.ImportComplete, Leaves: 1}
	for name, c := range map[string]struct {
		said  []events.Data // each in its own message
		check audit.Check   // empty: no finding
	}{
		"overspent":             {[]events.Data{mint(id, 1, hour), use(1, 0), use(2, -1)}, audit.CheckGrant},
		"miscounted":            {[]events.Data{mint(id, 3, hour), use(2, 1)}, audit.CheckGrant},
		"used after revoked":    {[]events.Data{mint(id, 3, hour), revoke, use(1, 2)}, audit.CheckGrant},
		"used as it expires":    {[]events.Data{mint(id, 3, at(2*time.Millisecond)), use(1, 2)}, audit.CheckGrant},
		"one after it is spent": {[]events.Data{mint(id, 1, hour), use(1, 0), mint(second, 1, hour)}, ""},
		"never minted":          {[]events.Data{use(1, 2)}, audit.CheckGrant},
		"two active":            {[]events.Data{mint(id, 3, hour), mint(second, 3, hour)}, audit.CheckGrant},
		"revoked twice":         {[]events.Data{mint(id, 3, hour), revoke, revoke}, audit.CheckGrant},
		"drop without memory":   {[]events.Data{&events.GrantMinted{GrantID: id, Kind: events.GrantDrop, ExpiresAt: hour, MaxUses: 1}, &events.GrantConsumed{GrantID: id, Kind: events.GrantDrop, Use: 1}}, audit.CheckGrant},
		"expired key used":      {[]events.Data{expired, &events.ApiKeyUsed{KeyID: id}}, audit.CheckKey},
		"dead key used":         {[]events.Data{key, &events.ApiKeyRevoked{KeyID: id}, &events.ApiKeyUsed{KeyID: id}}, audit.CheckKey},
		"key use not rationed":  {[]events.Data{key, &events.ApiKeyUsed{KeyID: id}, &events.ApiKeyUsed{KeyID: id}}, audit.CheckKey},
		"unknown session":       {[]events.Data{&events.SessionRevoked{SessionID: id}}, audit.CheckKey},
		"batch never cut":       {[]events.Data{&events.BatchConfirmed{BatchID: id, Signature: "s"}}, audit.CheckBatch},
		"batch ahead of log":    {[]events.Data{&events.BatchCut{BatchID: id, Size: 3}}, audit.CheckBatch},
		"idempotency key again": {[]events.Data{
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`), IdempotencyKeyHash: &same},
			&events.MemoryWritten{MemoryID: second, LeafIndex: 1, Metadata: []byte(`{}`), IdempotencyKeyHash: &same}}, audit.CheckUnique},
		"a grant that outlives its key": {[]events.Data{expired,
			&events.GrantMinted{GrantID: second, Kind: events.GrantCase, ExpiresAt: hour, MaxUses: 1, By: &events.Via{Kind: events.ViaKey, ID: id}}}, audit.CheckGrant},
		"a grant of a dead key": {[]events.Data{key, &events.ApiKeyRevoked{KeyID: id},
			&events.GrantMinted{GrantID: second, Kind: events.GrantCase, ExpiresAt: hour, MaxUses: 1, By: &events.Via{Kind: events.ViaKey, ID: id}}}, audit.CheckGrant},
		"used after its key was revoked": {[]events.Data{key,
			&events.GrantMinted{GrantID: second, Kind: events.GrantCase, ExpiresAt: hour, MaxUses: 1, By: &events.Via{Kind: events.ViaKey, ID: id}}, &events.ApiKeyRevoked{KeyID: id},
			&events.GrantConsumed{GrantID: second, Kind: events.GrantCase, Use: 1}}, audit.CheckGrant},
		"guest's salt of a session": {[]events.Data{
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`), Via: &events.Via{Kind: events.ViaSession, ID: id}, Salt: events.SaltGuest}}, audit.CheckLeaf},
		"guest's salt of a reader": {[]events.Data{
			&events.ApiKeyCreated{KeyID: id, KeyHash: fixture.Hash(id), Prefix: "svc_", Label: "l", Scopes: []events.Scope{events.ScopeRead, events.ScopeWrite}},
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`), Via: &events.Via{Kind: events.ViaKey, ID: id}, Salt: events.SaltGuest}}, audit.CheckLeaf},
		"guest's salt of a guest": {[]events.Data{
			&events.ApiKeyCreated{KeyID: id, KeyHash: fixture.Hash(id), Prefix: "svc_", Label: "l", Scopes: []events.Scope{events.ScopeWrite}},
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`), Via: &events.Via{Kind: events.ViaKey, ID: id}, Salt: events.SaltGuest}}, ""},
		"an import":                         {[]events.Data{started, imported, finished}, ""},
		"an import during another one":      {[]events.Data{started, started}, audit.CheckKey},
		"the end of no import":              {[]events.Data{finished}, audit.CheckKey},
		"an import that lacks a leaf":       {[]events.Data{started, &events.ImportFinished{Reason: events.ImportComplete}}, audit.CheckKey},
		"an import that gives another root": {[]events.Data{&events.ImportStarted{Root: same, Size: 1}, imported, &events.ImportFinished{Root: same, Reason: events.ImportComplete, Leaves: 1}}, audit.CheckLeaf},
		"imported without an import":        {[]events.Data{imported}, audit.CheckLeaf},
		"written during an import": {[]events.Data{started,
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`)}}, audit.CheckLeaf},
		"memory id again": {[]events.Data{
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`)},
			&events.MemoryWritten{MemoryID: id, LeafIndex: 1, Metadata: []byte(`{}`)}}, audit.CheckUnique},
		"transfer of another amount": {[]events.Data{
			&events.StakeDeposited{Mint: "m", Vault: "v", Signature: "s", Amount: "1"},
			&events.StakeDeposited{Mint: "m", Vault: "v", Signature: "s", Amount: "2"}}, audit.CheckUnique},
		"leaf index again": {[]events.Data{
			&events.MemoryWritten{MemoryID: id, LeafIndex: 0, Metadata: []byte(`{}`)},
			&events.MemoryWritten{MemoryID: second, LeafIndex: 0, Metadata: []byte(`{}`)}}, audit.CheckLeaf},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := fixture.NewActor()
			log := fixture.NewLog(t)
			for _, data := range c.said {
				log.Publish(t, a.Say(data))
			}
			found, _ := verify(t, audit.Config{Log: log.Replayed()})
			if (len(found) == 0) != (c.check == "") || slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Check != c.check || f.Owner != a.Owner || f.Seq == 0 }) {
				t.Errorf("found %v, want %q", found, c.check)
			}
		})
	}
}

// TestAMessageOfAnotherCommandIsFound: an audit finds a message that was stored with the
// command id of another command.
func TestAMessageOfAnotherCommandIsFound(t *testing.T) {
	t.Parallel()
	log, a := fixture.NewLog(t), fixture.NewActor()
	m := a.Write(`{}`)
	must(t, errorOf(log.Append(t.Context(), eventlog.Append{Family: m.Family, Owner: a.Owner, Kind: m.Kind, CommandID: fixture.UUID(), Payload: m.Payload(t)})))
	if found, _ := verify(t, audit.Config{Log: log.Replayed()}); len(found) != 1 || found[0].Check != audit.CheckDecode || found[0].Owner != a.Owner {
		t.Errorf("found %v", found)
	}
}

func TestTheChainIsCompared(t *testing.T) {
	t.Parallel()
	said, leaves := genuine(t, 1)
	owner := fixture.NumberedActor(1).Owner
	log := forged(t, raws(t, said))
	for name, c := range map[string]struct {
		account *audit.Commitment
		good    bool
	}{
		"as recorded":            {onchain(8, leaves), true},
		"ahead of what is known": {onchain(12, leaves), true},
		"another root":           {&audit.Commitment{Size: 8, Root: tree.RootOf(leaves)}, false},
		"behind":                 {&audit.Commitment{Size: 7, Root: tree.RootOf(leaves[:7])}, false},
		"more than the log has":  {&audit.Commitment{Size: 13, Root: tree.RootOf(leaves)}, false},
		"no account":             {nil, false},
	} {
		found, summary := verify(t, audit.Config{Log: log.Replayed(), Chain: chain{owner: c.account}})
		if c.good != (len(found) == 0) || slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Check != audit.CheckOnchain || f.Owner != owner }) {
			t.Errorf("%s: found %v, %+v", name, found, summary)
		}
		_, summary = verify(t, audit.Config{Log: log.Replayed(), Chain: behindChain{chain{owner: c.account}}})
		if older := c.account == nil || c.account.Size < 8; older != strings.Contains(fmt.Sprint(summary.Incomplete), "has reached slot 0") || older && summary.Findings > 0 {
			t.Errorf("%s, at a node that is behind: %+v", name, summary)
		}
	}
	gone := fixture.NumberedActor(9).Owner
	if found, _ := verify(t, audit.Config{Log: log.Replayed(), Owner: gone, Chain: chain{gone: {Size: 3}}}); len(found) != 1 || found[0].Owner != gone {
		t.Errorf("an owner taken out whole: %v", found)
	}
	found, summary := verify(t, audit.Config{Log: log.Replayed(), Chain: deadChain{}})
	if len(found) != 0 || summary.Good() || !strings.Contains(fmt.Sprint(summary.NotChecked), "the chain: out of reach") || len(summary.Incomplete) != 1 {
		t.Errorf("found %v, %+v", found, summary)
	}
}

// TestWhatMakesAnAuditIncomplete: a configured master key that does not open the data
// keys, and a requested owner that the log lacks, make the audit incomplete. A missing
// configuration, or a forgotten owner, does not.
func TestWhatMakesAnAuditIncomplete(t *testing.T) {
	t.Parallel()
	said, _ := genuine(t, 1)
	log := forged(t, raws(t, said))
	keys := func(err error) func(context.Context, events.Owner) (audit.Key, error) {
		return func(context.Context, events.Owner) (audit.Key, error) { return nil, fmt.Errorf("look: %w", err) }
	}
	for name, c := range map[string]struct {
		cfg        audit.Config
		incomplete string // text in Incomplete; empty if the audit is good
	}{
		"forgotten":          {audit.Config{Keys: keys(audit.ErrNoKey)}, ""},
		"another master key": {audit.Config{Keys: keys(&audit.Unopened{Why: "another master key"})}, "12 leaves against their content: another master key"},
		"another owner":      {audit.Config{Owner: fixture.NumberedActor(2).Owner}, "no such owner"},
	} {
		c.cfg.Log = log.Replayed()
		found, summary := verify(t, c.cfg)
		said := fmt.Sprint(summary.Incomplete)
		if len(found) != 0 || summary.Good() != (c.incomplete == "") || len(summary.Incomplete) > 1 || !strings.Contains(said, c.incomplete) {
			t.Errorf("%s: found %v, %+v", name, found, summary)
		}
	}
}

// TestADatabaseWithoutReadModels: DATABASE_URL may name another database.
func TestADatabaseWithoutReadModels(t *testing.T) {
	t.Parallel()
	said, _ := genuine(t, 1)
	pool, err := schema.OpenPool(t.Context(), pgtest.Database(t), schema.Live, 1)
	must(t, err)
	defer pool.Close()
	if _, err := audit.Run(t.Context(), audit.Config{Log: forged(t, raws(t, said)).Replayed(), Pool: pool}); err == nil || !strings.Contains(err.Error(), "there are none in the database of DATABASE_URL") {
		t.Error(err)
	}
}

// TestFalseConfirmationsAreFound: receipts quote a confirmation's cluster, program,
// account, slot and transaction, so false values make the receipts false. The audit
// compares them with the chain's account, and the transaction with the submitted ones.
func TestFalseConfirmationsAreFound(t *testing.T) {
	t.Parallel()
	said, leaves := genuine(t, 1)
	owner := fixture.NumberedActor(1).Owner
	good := raws(t, said)
	const confirmed = 13
	account := chain{owner: {Size: 8, Root: tree.RootOf(leaves[:8]), Slot: 1, Cluster: "c", ProgramID: "p", Account: "a"}}
	grown := chain{owner: {Size: 12, Root: tree.RootOf(leaves), Slot: 9, Cluster: "c", ProgramID: "p", Account: "a"}}
	for name, c := range map[string]struct {
		tamper func(m raw) raw
		chain  audit.Chain
		check  audit.Check // empty: no finding
	}{
		"the account has grown": {func(m raw) raw { return m }, grown, ""},
		"another cluster":       {func(m raw) raw { return replace(m, `"cluster":"c"`, `"cluster":"d"`) }, account, audit.CheckOnchain},
		"another program":       {func(m raw) raw { return replace(m, `"programId":"p"`, `"programId":"q"`) }, account, audit.CheckOnchain},
		"another account":       {func(m raw) raw { return replace(m, `"account":"a"`, `"account":"b"`) }, grown, audit.CheckOnchain},
		"another slot":          {func(m raw) raw { return replace(m, `"slot":1`, `"slot":2`) }, account, audit.CheckOnchain},
		"another transaction":   {func(m raw) raw { return replace(m, `"signature":"`, `"signature":"x`) }, nil, audit.CheckBatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			messages := slices.Clone(good)
			if messages[confirmed] = c.tamper(messages[confirmed]); c.check != "" && messages[confirmed] == good[confirmed] {
				t.Fatalf("nothing was altered: %s", good[confirmed].payload)
			}
			found, _ := verify(t, audit.Config{Log: forged(t, messages).Replayed(), Chain: c.chain})
			if (len(found) == 0) != (c.check == "") || slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Check != c.check || f.Owner != owner || f.Seq != confirmed+1 }) {
				t.Errorf("found %v, want %q", found, c.check)
			}
		})
	}
}

// anotherChain is a chain without our accounts, as after a restore without the chain.
type anotherChain struct{ chain }

func (anotherChain) GenesisHash(context.Context) (string, error) { return "d", nil }

// TestAnotherChainIsOneFinding: a chain that differs from the chain of the batches is one
// finding, no matter how many owners have batches.
func TestAnotherChainIsOneFinding(t *testing.T) {
	t.Parallel()
	var all []raw
	for n := range 3 {
		said, _ := genuine(t, n+1)
		all = append(all, raws(t, said)...)
	}
	log := forged(t, all)
	found, summary := verify(t, audit.Config{Log: log.Replayed(), Chain: anotherChain{}})
	if len(found) != 1 || found[0].Check != audit.CheckOnchain || !strings.Contains(found[0].Detail, "its genesis hash is d, the batches were confirmed on c") || summary.Accounts != 0 {
		t.Errorf("found %v, %+v", found, summary)
	}
}

type deadChain struct{}

func (deadChain) GenesisHash(context.Context) (string, error) { return "", errors.New("out of reach") }

func (deadChain) Commitments(context.Context, []events.Owner) ([]*audit.Commitment, uint64, error) {
	return nil, 0, errors.New("out of reach")
}

// behindChain is a chain whose node has not reached the batches' slot.
type behindChain struct{ chain }

func (c behindChain) Commitments(ctx context.Context, owners []events.Owner) ([]*audit.Commitment, uint64, error) {
	all, _, err := c.chain.Commitments(ctx, owners)
	return all, 0, err
}
