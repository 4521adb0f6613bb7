package httpapi

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var errNotInteger = errors.New("not an integer")

// integer reads an integer in any spelling: 15, 15.0 and 1.5e1 are the same number, and
// some clients have only floating-point numbers.
func integer(decoder *jsontext.Decoder, into *int) error {
	switch decoder.PeekKind() {
	case 'n':
		return errNull
	case '0':
	default:
		return errors.ErrUnsupported
	}
	number, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	n, ok := wholeNumber(string(number))
	if !ok {
		return errNotInteger
	}
	*into = n
	return nil
}

// wholeNumber returns the value of a JSON number if it is an int. It never rounds, and an
// exponent can't make it write a long run of digits.
func wholeNumber(number string) (int, bool) {
	number, negative := strings.CutPrefix(number, "-")
	exponent, bounded := 0, true
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		var err error
		exponent, err = strconv.Atoi(number[at+1:])
		number, bounded = number[:at], err == nil
	}
	before, after, _ := strings.Cut(number, ".")
	// The number is 0.digits with the point moved right by point places.
	point := len(before) + exponent
	digits := strings.TrimLeft(before+after, "0")
	point -= len(before+after) - len(digits)
	digits = strings.TrimRight(digits, "0")
	const most = 19 // digits of an int
	switch {
	case digits == "":
		return 0, true
	case !bounded || point < len(digits) || point > most:
		return 0, false
	}
	digits += strings.Repeat("0", point-len(digits))
	if negative {
		digits = "-" + digits
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// plainIntegers rewrites a list of integers without points and exponents. It returns
// anything else unchanged.
func plainIntegers(list jsontext.Value) jsontext.Value {
	var numbers []int
	if list.Kind() != '[' || json.Unmarshal(list, &numbers, strict) != nil {
		return list
	}
	plain, err := json.Marshal(numbers)
	if err != nil {
		return list
	}
	return plain
}
