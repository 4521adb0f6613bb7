package cuts_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// ahead is how far the wall clock of the second machine with APIs is ahead of all others.
const ahead = 90 * time.Second

// clocks says whether processes can be given a clock of their own.
const clocks = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

var vdsoMap = regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$`)

// setAhead sets the wall clock that a process reads. A program asks for the time in the
// vDSO, code of the kernel's in its own memory. There, what answers is replaced: it makes the
// system call, and adds to the seconds of CLOCK_REALTIME. The kernel copies that page for
// the process, so that no other one sees the change.
func setAhead(t *testing.T, pid int, by time.Duration) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	maps, err := os.ReadFile(proc + "maps")
	must(t, err)
	at := vdsoMap.FindSubmatch(maps)
	if at == nil {
		t.Fatal("the process has no vDSO")
	}
	bounds := [2]int64{}
	for i := range bounds {
		if bounds[i], err = strconv.ParseInt(string(at[i+1]), 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	memory, err := os.OpenFile(proc+"mem", os.O_RDWR, 0)
	must(t, err)
	defer memory.Close()
	image := make([]byte, bounds[1]-bounds[0])
	must(t, testkit.ErrorOf(memory.ReadAt(image, bounds[0])))
	object, err := elf.NewFile(bytes.NewReader(image))
	must(t, err)
	symbols, err := object.DynamicSymbols()
	must(t, err)
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne to the end
		0x48, 0x81, 0x06, // add qword [rsi], the seconds
	}
	code = append(binary.LittleEndian.AppendUint32(code, uint32(by/time.Second)), 0xc3) // ret
	for _, symbol := range symbols {
		if strings.HasSuffix(symbol.Name, "clock_gettime") {
			must(t, testkit.ErrorOf(memory.WriteAt(code, bounds[0]+int64(symbol.Value))))
			return
		}
	}
	t.Fatal("the vDSO does not tell the time")
}

// idTime returns when the service made an id (RFC 9562, version 7), by its clock.
func idTime(t *testing.T, id string) time.Time {
	t.Helper()
	parsed, err := uuid.Parse(id)
	if err != nil {
		t.Error(err)
	}
	return time.Unix(parsed.Time().UnixTime())
}
