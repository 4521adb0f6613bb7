package recall

import (
	"strings"
	"testing"
)

// TestPassage: the sentence that answers is found wherever it stands, in each language.
func TestPassage(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("We walked along the river and talked about the weather. ", 30)
	for query, c := range map[string]struct{ text, want string }{
		"when does the lease end":         {filler + "The lease ends in March. " + filler, "The lease ends in March."},
		"allergic nuts":                   {filler + "Tom is allergic to nuts", "Tom is allergic to nuts"},
		"port of the server":              {"# Setup\nInstall it.\n- the server listens on port 8080\n- restart it", "- the server listens on port 8080"},
		"Wo wohnt Helga":                  {"Das Wetter war schön. Helga wohnt in Bonn. Wir gingen nach Hause.", "Helga wohnt in Bonn."},
		"猫の名前":                            {"今日は晴れです。猫の名前はタマです。明日は雨です。", "猫の名前はタマです。"},
		`"lease ends" -cats`:              {filler + "The lease ends in March. We like cats.", "The lease ends in March."},
		"nothing of it":                   {"One. Two. Three.", "One."},
		"":                                {"One. Two. Three.", "One."},
		"version 1.5 of the protocol":     {"It costs 3.20 euros. Use version 1.5 of it. Bye.", "Use version 1.5 of it."},
		"the same in two sentences: bees": {"Bees fly. Bees sting.", "Bees fly."},
		"a text without an end":           {"a text without an end", "a text without an end"},
		"spaces":                          {"   \n\n  \n", ""},
		"end of leases":                   {strings.Repeat("It rained. ", 2000) + "The lease ends in March.", "The lease ends in March."},
	} {
		got := c.text[PassagesFor(query).In(c.text):]
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %.60q, want %q", query, got, c.want)
		}
	}
	walked := strings.Repeat("walked ", 100)
	long := walked + "the lease ends in March " + walked
	if got := long[PassagesFor("lease").In(long):]; !strings.Contains(got[:PassageLength], "the lease ends in March") {
		t.Errorf("of a long sentence: %.300q", got)
	}
}
