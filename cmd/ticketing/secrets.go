package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"ticketing/auth"
)

// maxSecretFile is the most that is read of a secret file: room for hundreds
// of secrets, and a limit for a path that names something else.
const maxSecretFile = 64 << 10

// secretSource is where secrets come from: a file, a value, or nowhere. Its
// errors never hold a secret.
type secretSource struct {
	value, file         text
	valueName, fileName string // how errors call them
}

func (c *serveCmd) secretSource() *secretSource {
	return &secretSource{
		value: c.AuthSecret, valueName: secretSetting,
		file: c.AuthSecretFile, fileName: secretFileSetting,
	}
}

// load returns the secrets there are now, or nil without an error when none are
// asked for. A setting that is given and holds no secret is an error: it never
// means that everybody may come in.
func (s *secretSource) load() (*auth.Secrets, error) {
	switch {
	case s.value.given && s.file.given:
		return nil, fmt.Errorf("%s and %s are both given: allowed is one of them", s.valueName, s.fileName)
	case s.value.given:
		return s.fromValue()
	case s.file.given:
		secrets, _, err := s.fromFile()
		return secrets, err
	}
	return nil, nil
}

// first returns the secret of a client, or nil without an error when none is
// asked for: the value, or the first one of the file. While a secret is being
// replaced that is the one which every node knows.
func (s *secretSource) first() ([]byte, error) {
	secrets, err := s.load()
	if secrets == nil || err != nil {
		return nil, err
	}
	if s.value.given {
		return []byte(s.value.value), nil
	}
	_, data, err := s.fromFile()
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if len(bytes.Trim(line, " \t")) > 0 { // not blank, as auth.ParseSecrets sees it
			return line, nil
		}
	}
	return nil, err
}

func (s *secretSource) fromValue() (*auth.Secrets, error) {
	switch {
	case strings.Trim(s.value.value, " \t") == "": // blank, as a line of a file
		return nil, &settingError{setting: s.valueName, problem: "is empty: allowed is a secret, or leave it unset"}
	case strings.ContainsAny(s.value.value, "\r\n"):
		return nil, &settingError{setting: s.valueName, problem: "has a line end in it: allowed is one secret; for several, use AUTH_SECRET_FILE"}
	}
	return auth.NewSecrets([]byte(s.value.value))
}

// fromFile returns the secrets of the file, and its text.
func (s *secretSource) fromFile() (*auth.Secrets, []byte, error) {
	data, err := readSmall(s.file.value, maxSecretFile)
	if err == nil {
		var secrets *auth.Secrets
		if secrets, err = auth.ParseSecrets(data); err == nil {
			return secrets, data, nil
		}
	}
	return nil, nil, &settingError{s.fileName, fmt.Sprintf("%q", s.file.value), err.Error() + "; allowed is a file of secrets, one a line"}
}

// readSmall reads a regular file of at most so many bytes. It never waits: a
// pipe without a writer must not hold up a node that is told to read its
// secrets again.
func readSmall(path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err // the path is named already
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("larger than %d bytes", most)
	}
	return data, nil
}
