package httpapi

import "testing"

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "gzip, deflate, br, zstd": true, "deflate,gzip;q=0.1": true, "*": true, "br, *;q=0.2": true,
		"gzip ; q=1.0": true, "identity, gzip": true, "identity;q=0, *": true,
		"": false, "br": false, "identity": false, "gzip;q=0": false, "gzip;q=0.000": false, "gzip;q=x": false, "gzip;q=2": false, "gzip;q=-1": false,
		"gzip;q=NaN": false, "*;q=0": false, "gzip;q=0, *": false, "gzip;q=0.2, identity": false, "notgzip": false, "gzip, gzip;q=0": true,
	} {
		if got := takesGzip([][]byte{[]byte(header)}); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
	if !takesGzip([][]byte{[]byte("br"), []byte("gzip")}) || takesGzip(nil) {
		t.Error("of several headers, or none")
	}
}
