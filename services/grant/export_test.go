package grant

// Kept is how many bytes of documents are kept.
func (s *Service) Kept() int64 { return s.shelf.used.Load() }

// Readers is how many readers of cases are at work, or wait.
func (s *Service) Readers() (n int) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	for _, l := range s.lanes.byCase {
		n += l.readers
	}
	return n
}
