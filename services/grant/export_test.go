package grant

// Kept is how many bytes of documents are kept.
func (s *Service) Kept() int64 { return s.documents.used.Load() }

// Readers is how many readers of cases are at work, or wait.
func (s *Service) Readers() (n int) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	for _, l := range s.limiter.byCase {
		n += l.readers
	}
	return n
}
