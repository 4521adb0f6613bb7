package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/recall"
)

// TestWhatAnswersIsShown: the sentence that answers is in the answer, wherever it stands in
// a long text, however many texts there are.
func TestWhatAnswersIsShown(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("We walked along the river, and it rained. ", 36)
	for _, limit := range []int{1, 6, 10} {
		costs := make([]int, limit)
		for i := range costs {
			costs[i] = costOf(filler)
		}
		given := shares((answerCost-(1+limit)*frameCost)/2, costs)
		for i, text := range []string{filler + "The spare key is under the third pot.", "The spare key is under the third pot. " + filler, filler + "The spare key is under the third pot. " + filler} {
			part, offset, truncated := passage(text, recall.PassagesFor("where is the spare key"), given[i%limit])
			if !strings.Contains(part, "spare key is under the third pot") || !truncated || skip(text, offset)[:len(part)] != part {
				t.Errorf("limit %d, text %d: %d %q", limit, i, offset, part)
			}
		}
	}
	if part, offset, truncated := passage("short", recall.PassagesFor("where"), 100); part != "short" || offset != 0 || truncated {
		t.Errorf("a short text: %q %d", part, offset)
	}
}

// TestShares: the budget is shared among what was found. If a text needs less than its share,
// longer ones get the rest.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ costs, want []int }{
		{[]int{10, 20, 30}, []int{10, 20, 30}}, {[]int{10, 500, 20}, []int{10, 70, 20}}, {[]int{500, 500}, []int{50, 50}}, {[]int{10, 500, 500}, []int{10, 45, 45}}, {nil, []int{}},
	} {
		if got := shares(100, c.costs); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.costs, got, c.want)
		}
	}
}

// TestCopiesAreOneResult: texts that differ only in case, spaces and punctuation.
func TestCopiesAreOneResult(t *testing.T) {
	t.Parallel()
	var found []memory.View
	for i, text := range []string{"Tea at five.", "It is -5 degrees", "tea  at FIVE", "Now here", "It is 5 degrees", "nowhere", "Tea at five!", "🍵", "🫖"} {
		found = append(found, memory.View{ID: fmt.Sprint(i), LeafIndex: uint64(i), Content: text})
	}
	single, copies := merged(found)
	var ids []string
	for _, m := range single {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []string{"0", "1", "3", "4", "5", "7", "8"}) || len(copies[0]) != 2 || copies[0][1].ID != "m6" {
		t.Errorf("got %v with %v", ids, copies)
	}
}
