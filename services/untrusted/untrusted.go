// Package untrusted frames stored text, so that a reader, person or model, can tell it from
// what the service says, whatever the text is.
package untrusted

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Mark is the name of the lines around stored text in one answer. It is random, so no stored
// text can contain it.
type Mark string

func NewMark() Mark {
	var name [4]byte
	_, _ = rand.Read(name[:]) // never fails
	return Mark("untrusted-" + hex.EncodeToString(name[:]))
}

// Begin is the line before stored text.
func (m Mark) Begin() string { return "<" + string(m) + ">" }

// End is the line after stored text.
func (m Mark) End() string { return "</" + string(m) + ">" }

// Visible escapes the characters that a terminal would obey, that show text in another order
// than it has, or that only a model reads: tags, which people do not see. Line breaks and
// tabs stay. In a JSON text, the escapes are JSON's.
func Visible(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"):
			out.WriteByte('\r')
		case hidden(r):
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// hidden includes the carriage return: alone, it lets a line overwrite itself.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r>>7 == 0xe0000>>7:
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r)
}
