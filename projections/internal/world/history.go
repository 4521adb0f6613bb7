package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// History is a made-up past of some owners: everything that can happen,
// interleaved by chance, in an order that the command side could have decided.
type History struct {
	chance *rand.Rand
	lives  []*life
}

// life is what one owner has open.
type life struct {
	*Actor
	registered       bool
	sessions, keys   []string
	ended            []string // sessions that are revoked
	revoked          []string // keys that are
	grants           []*events.GrantMinted
	used             map[string]int
	batchSize        uint64
	batch            *events.BatchCut
	submitted        *events.BatchSubmitted
	late             *events.BatchFailed
	lastStake        *events.StakeDeposited
	idempotencyCount int
}

// NewHistory makes a history of a number of owners, the same for the same
// seed but for random ids.
func NewHistory(seed uint64, owners int) *History {
	h := &History{chance: rand.New(rand.NewPCG(seed, seed))}
	for range owners {
		h.lives = append(h.lives, &life{Actor: NewActor(), used: make(map[string]int)})
	}
	return h
}

// Actors are the owners.
func (h *History) Actors() []*Actor {
	var actors []*Actor
	for _, l := range h.lives {
		actors = append(actors, l.Actor)
	}
	return actors
}

// Messages is the next stretch of it.
func (h *History) Messages(n int) []Message {
	var messages []Message
	for len(messages) < n {
		if m, ok := h.next(h.lives[h.chance.IntN(len(h.lives))]); ok {
			messages = append(messages, m)
		}
	}
	return messages
}

func (h *History) next(l *life) (Message, bool) {
	if !l.registered {
		l.registered = true
		return l.Say(&events.OwnerRegistered{UserID: UUID()}, h.session(l)), true
	}
	switch h.chance.IntN(16) {
	case 0:
		// A sign-in may end another session, the oldest of too many.
		if h.chance.IntN(3) == 0 {
			if id, ok := take(h, &l.sessions); ok {
				l.ended = append(l.ended, id)
				return l.Say(&events.SessionRevoked{SessionID: id}, h.session(l)), true
			}
		}
		return l.Say(h.session(l)), true
	case 1:
		// A second revocation changes nothing.
		if len(l.ended) > 0 && h.chance.IntN(3) == 0 {
			return l.Say(&events.SessionRevoked{SessionID: l.ended[h.chance.IntN(len(l.ended))]}), true
		}
		if id, ok := take(h, &l.sessions); ok {
			l.ended = append(l.ended, id)
			return l.Say(&events.SessionRevoked{SessionID: id}), true
		}
	case 2:
		id := UUID()
		l.keys = append(l.keys, id)
		return l.Say(&events.ApiKeyCreated{KeyID: id, KeyHash: Hash(id), Prefix: "svc_abc", Label: "odd \x00 label"}), true
	case 3:
		if len(l.keys) > 0 {
			return l.Say(&events.ApiKeyUsed{KeyID: l.keys[h.chance.IntN(len(l.keys))]}), true
		}
	case 4:
		if len(l.revoked) > 0 && h.chance.IntN(3) == 0 {
			return l.Say(&events.ApiKeyRevoked{KeyID: l.revoked[h.chance.IntN(len(l.revoked))]}), true
		}
		if id, ok := take(h, &l.keys); ok {
			l.revoked = append(l.revoked, id)
			return l.Say(&events.ApiKeyRevoked{KeyID: id}), true
		}
	case 5, 6, 7:
		return h.grant(l)
	case 8, 9:
		return h.batches(l)
	case 10:
		return h.stake(l), true
	}
	return l.Say(h.memory(l)), true
}

func (h *History) session(l *life) *events.SessionIssued {
	id := UUID()
	s := &events.SessionIssued{SessionID: id, Audience: events.AudienceCore, ExpiresAt: h.expiry()}
	if h.chance.IntN(2) == 0 {
		hash := Hash(id)
		s.Audience, s.TokenHash = events.AudienceExtension, &hash
		l.sessions = append(l.sessions, id)
	}
	return s
}

func (h *History) expiry() events.Timestamp {
	return events.At(time.Date(2026, 1, 2, 3, h.chance.IntN(60), 0, 0, time.UTC))
}

func (h *History) memory(l *life) *events.MemoryWritten {
	m := l.Memory(fmt.Sprintf(`{"n":%d,"nul":"\u0000"}`, h.chance.IntN(1000)))
	if h.chance.IntN(3) == 0 {
		l.idempotencyCount++
		hash := Hash(fmt.Sprint(l.idempotencyCount))
		m.IdempotencyKeyHash = &hash
	}
	return m
}

// grant mints (superseding the one before), spends, or revokes.
func (h *History) grant(l *life) (Message, bool) {
	if len(l.grants) == 0 || h.chance.IntN(4) == 0 {
		g := &events.GrantMinted{GrantID: UUID(), Kind: events.GrantDrop, ExpiresAt: h.expiry(), MaxUses: 1 + h.chance.IntN(3)}
		g.TokenHash = Hash(g.GrantID)
		data := []events.Data{}
		for _, old := range l.grants {
			data = append(data, &events.GrantRevoked{GrantID: old.GrantID, Kind: old.Kind, Reason: events.Superseded})
		}
		l.grants = []*events.GrantMinted{g}
		return l.Say(append(data, g)...), true
	}
	g := l.grants[0]
	if h.chance.IntN(6) == 0 {
		l.grants = nil
		return l.Say(&events.GrantRevoked{GrantID: g.GrantID, Kind: g.Kind, Reason: events.RevokedByOwner}), true
	}
	if l.used[g.GrantID] == g.MaxUses {
		return Message{}, false
	}
	l.used[g.GrantID]++
	use := l.used[g.GrantID]
	return l.Say(&events.GrantConsumed{GrantID: g.GrantID, Kind: g.Kind, Use: use, Remaining: g.MaxUses - use}, h.memory(l)), true
}

// batches takes the anchorer's next step, which may be a failure.
func (h *History) batches(l *life) (Message, bool) {
	if late := l.late; late != nil {
		l.late = nil
		return l.Say(late), true
	}
	switch {
	case l.batch == nil:
		if l.Leaves() == l.batchSize {
			return Message{}, false
		}
		l.batch = &events.BatchCut{BatchID: UUID(), FromSize: l.batchSize, Size: l.Leaves(), Root: Hash(fmt.Sprint(l.Leaves()))}
		return l.Say(l.batch), true
	case h.chance.IntN(4) == 0:
		failed := &events.BatchFailed{BatchID: l.batch.BatchID, Reason: "because \x00"}
		if l.submitted != nil {
			failed.Signature = l.submitted.Signature
		}
		if h.chance.IntN(2) == 0 {
			l.batch = nil // cut again as another batch; or the same is tried again
		}
		l.submitted = nil
		return l.Say(failed), true
	case l.submitted == nil:
		l.submitted = &events.BatchSubmitted{
			BatchID: l.batch.BatchID, Size: l.batch.Size, Root: l.batch.Root, Signature: UUID(),
			Blockhash: "hash", LastValidBlockHeight: 7, Transaction: []byte{1, 0, 2},
		}
		return l.Say(l.submitted), true
	}
	confirmed := &events.BatchConfirmed{
		BatchID: l.batch.BatchID, Size: l.batch.Size, Root: l.batch.Root, Signature: l.submitted.Signature,
		Slot: 9, Cluster: "cluster", ProgramID: "program", Account: "account",
	}
	l.batchSize, l.batch, l.submitted = l.batch.Size, nil, nil
	if h.chance.IntN(3) == 0 {
		// Another attempt of the same batch is found dead later.
		l.late = &events.BatchFailed{BatchID: confirmed.BatchID, Signature: UUID(), Reason: "late"}
	}
	return l.Say(confirmed), true
}

// stake moves tokens, twice in one transaction at times, and is at times seen
// a second time.
func (h *History) stake(l *life) Message {
	if l.lastStake != nil && h.chance.IntN(3) == 0 {
		return l.Say(l.lastStake)
	}
	s := events.StakeDeposited{
		Mint: "mint", Vault: "vault", Amount: "18446744073709551615", Signature: UUID(),
		Slot: uint64(h.chance.IntN(100)), BlockTime: h.expiry(),
	}
	l.lastStake = &s
	w := events.StakeWithdrawn(s)
	again := s
	again.Amount = "1"
	switch h.chance.IntN(3) {
	case 0:
		return l.Say(&s, &again)
	case 1:
		return l.Say(&s, &w)
	}
	return l.Say(&s)
}

func take(h *History, list *[]string) (string, bool) {
	if len(*list) == 0 {
		return "", false
	}
	i := h.chance.IntN(len(*list))
	id := (*list)[i]
	*list = append((*list)[:i:i], (*list)[i+1:]...)
	return id, true
}
