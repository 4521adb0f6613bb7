package browser

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestPictures takes the pictures and the recording of the documents (`make pictures`).
// LEDGER_PICTURES names their folder.
func TestPictures(t *testing.T) {
	o := owner{Pictures: os.Getenv("LEDGER_PICTURES")}
	if o.Pictures == "" {
		t.Skip("changes docs/images: LEDGER_PICTURES asks for it")
	}
	encoder, err := exec.LookPath("img2webp")
	if err != nil {
		stacktest.Lacking(t, "img2webp is not here: `make pictures` installs it")
	}
	o.Chromium, o.Modules, o.Screenshots = chromium(t), modules(t), t.TempDir()
	o.on(t)
	told, err := json.Marshal(o)
	must(t, err)
	var frames []struct {
		File string
		MS   int
	}
	must(t, json.Unmarshal(drive(t, "pictures.mjs", told), &frames))
	recording := filepath.Join(o.Pictures, "dashboard.webp")
	args := []string{"-loop", "0", "-mixed", "-q", "70", "-m", "6"}
	var length time.Duration
	for _, f := range frames {
		args = append(args, "-d", strconv.Itoa(f.MS), f.File)
		length += time.Duration(f.MS) * time.Millisecond
	}
	if said, err := exec.Command(encoder, append(args, "-o", recording)...).CombinedOutput(); err != nil {
		t.Fatalf("img2webp: %v\n%s", err, said)
	}
	info, err := os.Stat(recording)
	must(t, err)
	t.Logf("%d frames, %v, %d bytes", len(frames), length, info.Size())
	if info.Size() > 1<<20 || length < 15*time.Second || length > 25*time.Second {
		t.Error("a recording takes 15 to 25 seconds, and at most 1 MiB")
	}
}
