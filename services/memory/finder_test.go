package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// question is a query of a finder, which the test answers.
type question struct {
	wanted []memories.Wanted
	answer chan<- error
}

// asked is a finder whose queries a test answers, with every wanted memory or with an
// error.
func asked() (*finder, <-chan question) {
	questions := make(chan question)
	return newFinder(func(_ context.Context, wanted []memories.Wanted) ([]*memories.Memory, error) {
		answer := make(chan error)
		questions <- question{wanted, answer}
		if err := <-answer; err != nil {
			return nil, err
		}
		return each(wanted), nil
	}), questions
}

func each(wanted []memories.Wanted) []*memories.Memory {
	found := make([]*memories.Memory, len(wanted))
	for i, w := range wanted {
		found[i] = &memories.Memory{ID: w.ID, Owner: w.Owner}
	}
	return found
}

// reading starts a read. It returns once the read waits, with a channel for its outcome.
func reading(ctx context.Context, f *finder, id string) <-chan error {
	outcome := make(chan error, 1)
	go func() {
		m, err := f.find(ctx, memories.Wanted{Owner: "o", ID: id})
		if err == nil && m.ID != id {
			err = fmt.Errorf("%s was found for %s", m.ID, id)
		}
		outcome <- err
	}()
	synctest.Wait()
	return outcome
}

func ids(q question) (all []string) {
	for _, w := range q.wanted {
		all = append(all, w.ID)
	}
	return all
}

func TestReadersWhoComeMeanwhileShareTheNextQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, questions := asked()
		var outcomes []<-chan error
		var first []question
		for i := range maxQuestions { // each starts a query at once
			outcomes = append(outcomes, reading(t.Context(), f, fmt.Sprint("lone ", i)))
			first = append(first, <-questions)
			if got := ids(first[i]); len(got) != 1 {
				t.Fatalf("a lone reader's question asks for %q", got)
			}
		}
		var late []string
		for i := range maxWanted + 3 {
			late = append(late, fmt.Sprint("late ", i))
			outcomes = append(outcomes, reading(t.Context(), f, late[i]))
		}
		select {
		case q := <-questions:
			t.Fatalf("%d questions are under way, and there is one for %q", maxQuestions, ids(q))
		default:
		}
		first[0].answer <- nil
		second := <-questions
		if got := ids(second); !slices.Equal(got, late[:maxWanted]) {
			t.Errorf("the second question asks for %q, want %q", got, late[:maxWanted])
		}
		first[1].answer <- nil
		third := <-questions
		if got := ids(third); !slices.Equal(got, late[maxWanted:]) {
			t.Errorf("the third question asks for %q, want %q", got, late[maxWanted:])
		}
		second.answer <- nil
		third.answer <- nil
		for _, outcome := range outcomes {
			if err := <-outcome; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAQuestionThatFailsFailsThoseWhoSharedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, questions := asked()
		a := reading(t.Context(), f, "a")
		qa := <-questions
		b := reading(t.Context(), f, "b")
		qb := <-questions
		ctx, leave := context.WithCancel(t.Context())
		c, d, e := reading(ctx, f, "c"), reading(t.Context(), f, "d"), reading(t.Context(), f, "e")
		leave()
		if err := <-c; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		broken := errors.New("the database is on fire")
		qa.answer <- nil
		shared := <-questions
		if got := ids(shared); !slices.Equal(got, []string{"d", "e"}) {
			t.Errorf("the question of those who stayed asks for %q", got)
		}
		shared.answer <- broken
		qb.answer <- nil
		for name, got := range map[string]struct {
			outcome <-chan error
			want    error
		}{"a": {a, nil}, "b": {b, nil}, "d": {d, broken}, "e": {e, broken}} {
			if err := <-got.outcome; !errors.Is(err, got.want) {
				t.Errorf("%s got %v, want %v", name, err, got.want)
			}
		}
		// The finder still answers afterwards.
		g := reading(t.Context(), f, "g")
		(<-questions).answer <- nil
		if err := <-g; err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicOfAQuestionIsAnError(t *testing.T) {
	t.Parallel()
	f := newFinder(func(context.Context, []memories.Wanted) ([]*memories.Memory, error) { panic("at the disco") })
	for range 2 {
		if _, err := f.find(t.Context(), memories.Wanted{}); err == nil || !strings.Contains(err.Error(), "at the disco") {
			t.Errorf("got %v", err)
		}
	}
}

// The answer must include everything that was stored when the reader arrived: the fence has
// promised that.
func TestNobodyGetsAnAnswerFromBeforeTheyCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Uint64
		f := newFinder(func(_ context.Context, wanted []memories.Wanted) ([]*memories.Memory, error) {
			found := each(wanted)
			asOf := now.Load()
			for _, m := range found {
				m.Seq = asOf
			}
			return found, nil
		})
		var group sync.WaitGroup
		for r := range 16 {
			group.Go(func() {
				for n := range 2000 {
					id, came := fmt.Sprint(r, "-", n), now.Add(1)
					m, err := f.find(t.Context(), memories.Wanted{Owner: events.Owner(fmt.Sprint(r)), ID: id})
					if err != nil || m.ID != id || m.Owner != events.Owner(fmt.Sprint(r)) || m.Seq < came {
						t.Errorf("reader %d came at %d and got %+v, %v", r, came, m, err)
						return
					}
				}
			})
		}
		group.Wait()
		synctest.Wait() // for the last query to end
		if f.asking != 0 || len(f.waiting) != 0 {
			t.Errorf("%d questions are under way and %d readers wait", f.asking, len(f.waiting))
		}
	})
}
