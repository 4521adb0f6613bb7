package access

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/signin"
)

// signedSessions are the core sessions. The token names its owner and its end. The read
// model says whether the session was ended.
type signedSessions struct {
	tokens *signin.SignedTokens
	query  schema.Querier
	fence  *fence.Fence
	// live holds, by session id, what the fence returned before the session was last
	// found alive. While the fence returns the same known head, the session was not
	// ended.
	live *lru.Cache[string, fence.Head]
}

func newSignedSessions(q schema.Querier, f *fence.Fence, tokens *signin.SignedTokens) *signedSessions {
	live, err := lru.New[string, fence.Head](cachedHashes)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &signedSessions{tokens: tokens, query: q, fence: f, live: live}
}

// caller returns the owner of a token. If read is set, it refuses a session that was
// ended. Otherwise the decision refuses it.
func (s *signedSessions) caller(ctx context.Context, token string, read bool) (Caller, error) {
	owner, id, expires, err := s.tokens.Verify(token)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	caller := Caller{Owner: owner, Credential: command.Credential{Kind: command.CredentialCoreSession, ID: id}, Expires: expires}
	if read {
		if caller.Head, err = s.alive(ctx, owner, id); err != nil {
			return Caller{}, err
		}
	}
	return caller, nil
}

// alive catches up with everything that the owner did before the call, and reports
// ErrUnauthenticated for a session that was ended by then.
func (s *signedSessions) alive(ctx context.Context, owner events.Owner, id string) (fence.Head, error) {
	head, err := s.fence.WaitOwnerHead(ctx, owner)
	if err != nil {
		return fence.Head{}, err
	}
	if last, known := s.live.Get(id); known && head.Known() && last == head {
		return head, nil
	}
	session, found, err := sessions.ByID(ctx, s.query, owner, id)
	if err != nil {
		return fence.Head{}, fmt.Errorf("look up credential: %w", err)
	}
	if !found || session.RevokedAt != nil {
		s.live.Remove(id)
		return fence.Head{}, ErrUnauthenticated
	}
	s.live.Add(id, head)
	return head, nil
}
