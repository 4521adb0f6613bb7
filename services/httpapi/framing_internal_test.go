package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

var (
	naiveLine  = regexp.MustCompile(`(?s)^([-!#$%&'*+.^_\x60|~0-9A-Za-z]+):([^\r\x00]*)$`)
	naiveValue = map[string]*regexp.Regexp{
		"host":              regexp.MustCompile(`^[ \t]*[-._~%!$&'()*+,;=:\[\]0-9A-Za-z]*[ \t]*$`),
		"transfer-encoding": regexp.MustCompile(`^[ \t]*(?i:chunked)[ \t]*$`),
	}
)

// naiveFraming is a slow framingOf: it parses every line, then counts.
func naiveFraming(raw string, http11 bool) (closes bool, err error) {
	count := map[string]int{}
	spaced, long := false, false
	for raw != "" {
		line, rest, ended := strings.Cut(raw, "\n")
		if !ended {
			return false, errHeader
		}
		raw = rest
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			break
		}
		spaced = spaced || strings.HasSuffix(line, " ")
		parts := naiveLine.FindStringSubmatch(line)
		if parts == nil {
			return false, errHeader
		}
		name := strings.ToLower(parts[1])
		if form := naiveValue[name]; form != nil && !form.MatchString(parts[2]) {
			return false, map[string]error{"host": errHost, "transfer-encoding": errEncodings}[name]
		}
		count[name]++
		if name == "content-length" && regexp.MustCompile(`^[ \t]*[0-9]+[ \t]*$`).MatchString(parts[2]) {
			n, err := strconv.ParseUint(strings.Trim(parts[2], " \t"), 10, 64)
			long = long || err != nil || n > MaxBody
		}
	}
	switch hosts, encodings := count["host"], count["transfer-encoding"]; {
	case hosts > 1 || http11 && hosts == 0:
		return false, errHost
	case count["content-length"] > 1:
		return false, errLengths
	case encodings > 1 || encodings > 0 && !http11:
		return false, errEncodings
	case long:
		return false, fiber.ErrRequestEntityTooLarge
	}
	return spaced || count["content-length"]+count["transfer-encoding"] == 2, nil
}

// FuzzFraming compares the single pass over the lines with a naive one, and the server's
// reading of a request with the bytes that were sent. A request that passes has the
// length of its only length header, or chunks.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"Host: x\r\n\r\n", "Host: x\n\n", "host:x:80 \r\nCONTENT-LENGTH:\t5\r\n\r\n", "Host: x\r\nHost: x\r\n\r\n", "\r\n", "",
		"Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "Host: x\r\nContent-Length: 5\r\ntransfer-encoding: Chunked\r\n\r\n",
		"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"Host: x\r\nA: b\r\n c\r\n\r\n", " Host: x\r\n\r\n", "Host : x\r\n\r\n", "Host: x\r\nA\r\n\r\n", "Host: x\r\nA: b\rContent-Length: 5\r\n\r\n",
		"Host: a b\r\n\r\n", "Host: x\x00\r\n\r\n", "Host: [::1]:3001\r\nA\x0b: b\r\n\r\n", "Host: x\r\nÄ: b\r\n\r\n", "Host: é\r\n\r\n", "Host: x\r\n\r\r\n\r\n",
		"Host: x\r\nContent-Length: 1048576\r\n\r\n", "Host: x\r\nContent-Length: 1048577\r\n\r\n", "Host: x\r\nContent-Length: 0001048576\r\n\r\n",
		"Host: x\r\nContent-Length: 1844674407370955162100\r\n\r\n",
		"Host: x\r\nA:\n \n\n", "A: b\r\n  \r\n \r\n\r\n",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, raw string, http11 bool) {
		closes, err := framingOf([]byte(raw), http11)
		wantCloses, want := naiveFraming(raw, http11)
		if closes != wantCloses || !errors.Is(err, want) {
			t.Fatalf("%q: %v, %v; naively %v, %v", raw, closes, err, wantCloses, want)
		}
		version := "1.0"
		if http11 {
			version = "1.1"
		}
		var header fasthttp.RequestHeader
		sent := "POST /x HTTP/" + version + "\r\n" + raw
		if header.Read(bufio.NewReaderSize(strings.NewReader(sent), len(sent)+16)) != nil {
			return // the server refuses it itself
		}
		closes, err = framing(&header)
		if err != nil {
			return
		}
		if !closes && !strings.HasPrefix(raw, string(header.RawHeaders())) {
			t.Fatalf("%q: the server has %q", raw, header.RawHeaders())
		}
		if n := len(header.PeekAll("Transfer-Encoding")); (header.ContentLength() == -1) != (n == 1) {
			t.Errorf("%q: length %d, %d encodings", raw, header.ContentLength(), n)
		}
	})
}

const usualHeaders = "Host: ledger.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: */*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nContent-Type: application/json\r\n" +
	"Authorization: Bearer aGVhZGVy.cGF5bG9hZHBheWxvYWRwYXlsb2FkcGF5bG9hZHBheWxvYWQ.c2lnbmF0dXJlc2lnbmF0dXJl\r\n" +
	"Content-Length: 64\r\nOrigin: chrome-extension://mckckkbinjalkaobmgaohdjieigmfink\r\nConnection: keep-alive\r\n\r\n"

func TestFramingAllocatesNothing(t *testing.T) {
	header := readHeader(t, usualHeaders)
	conn := conn{}
	sent := []byte("POST /memories HTTP/1.1\r\n" + usualHeaders)
	if n := testing.AllocsPerRun(100, func() {
		conn.see(sent)
		if closes, err := framing(header); closes || err != nil || conn.answers(header) {
			t.Error(closes, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFraming(b *testing.B) {
	header := readHeader(b, usualHeaders)
	conn := conn{}
	sent := []byte("POST /memories HTTP/1.1\r\n" + usualHeaders)
	b.ReportAllocs()
	for b.Loop() {
		conn.see(sent)
		if _, err := framing(header); err != nil || conn.answers(header) {
			b.Fatal(err)
		}
	}
}

func readHeader(tb testing.TB, lines string) *fasthttp.RequestHeader {
	tb.Helper()
	var header fasthttp.RequestHeader
	if err := header.Read(bufio.NewReader(bytes.NewReader([]byte("POST /memories HTTP/1.1\r\n" + lines)))); err != nil {
		tb.Fatal(err)
	}
	return &header
}
