package auth

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
)

// Secrets are the secrets a server accepts, any of them, so that one can be
// replaced by another while clients still use the first. They never change
// once made and may be shared freely. A nil *Secrets accepts nobody.
type Secrets struct {
	all [][]byte // at least one; none is empty
}

// NewSecrets makes Secrets of copies of the given ones, byte for byte. None at
// all, or an empty one among them, is an error.
func NewSecrets(secrets ...[]byte) (*Secrets, error) {
	if len(secrets) == 0 {
		return nil, errors.New("auth: no secret")
	}
	s := &Secrets{all: make([][]byte, 0, len(secrets))}
	for i, secret := range secrets {
		if len(secret) == 0 {
			return nil, fmt.Errorf("auth: secret %d is empty", i+1)
		}
		s.all = append(s.all, bytes.Clone(secret))
	}
	return s, nil
}

// ParseSecrets reads the contents of a secret file: one secret a line, ended by
// '\n' or the end of the file. Blank lines (nothing, or only spaces and tabs)
// are ignored; otherwise every byte counts, spaces at either end too. A line
// that ends in '\r' is an error, since a secret that ends in an invisible byte
// is nearly always a file written on another system. So is a file without a
// secret. Errors name a line by its number and never quote it.
func ParseSecrets(file []byte) (*Secrets, error) {
	var secrets [][]byte
	number := 0
	for line := range bytes.SplitSeq(file, []byte{'\n'}) {
		number++
		if bytes.HasSuffix(line, []byte{'\r'}) {
			return nil, fmt.Errorf("auth: line %d of the secrets ends in a carriage return", number)
		}
		if len(bytes.Trim(line, " \t")) > 0 {
			secrets = append(secrets, line)
		}
	}
	return NewSecrets(secrets...)
}

// Len returns how many secrets there are.
func (s *Secrets) Len() int {
	if s == nil {
		return 0
	}
	return len(s.all)
}

// Format prints how many secrets there are, whatever the verb, and never a
// secret.
func (s Secrets) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "auth.Secrets(%d)", len(s.all))
}

// accept reports whether text answers nonce under one of the secrets. Its time
// depends on how many secrets there are and how long they are, and on nothing
// that text says: every digest is computed and compared, whichever is right.
func (s *Secrets) accept(text []byte, nonce [NonceSize]byte) bool {
	if s == nil {
		return false
	}
	right := 0
	for _, secret := range s.all {
		want := digest(secret, nonce)
		right |= subtle.ConstantTimeCompare(text, want[:])
	}
	return right == 1
}
