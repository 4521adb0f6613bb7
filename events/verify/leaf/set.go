package leaf

// Set is a set of leaves of one log, by index. It takes a bit for each leaf up to the last
// one in it.
type Set []uint64

// Add adds a leaf.
func (s *Set) Add(leaf uint64) {
	if word := leaf / 64; word >= uint64(len(*s)) {
		*s = append(*s, make(Set, word+1-uint64(len(*s)))...)
	}
	(*s)[leaf/64] |= 1 << (leaf % 64)
}

// Has reports whether a leaf is in the set.
func (s Set) Has(leaf uint64) bool {
	return leaf/64 < uint64(len(s)) && s[leaf/64]>>(leaf%64)&1 == 1
}
