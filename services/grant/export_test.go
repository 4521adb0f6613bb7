package grant

// Readers returns the number of readers of cases that work or wait.
func (s *Service) Readers() int { return s.readers.Callers() }
