package main

import (
	"fmt"
	"regexp"
	"strings"
)

// clientVariables are the TICKETING_ variables there are: for the commands of
// clients, and for what the lock command runs.
var clientVariables = map[string]bool{"TICKETING_ADDR": true, "TICKETING_KEY": true, "TICKETING_TOKEN": true}

// injected matches what Kubernetes sets in every container beside a Service
// whose name begins with "ticketing". Nobody chose these.
var injected = regexp.MustCompile(`^TICKETING(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkVariables refuses a variable that looks like a setting and is none:
// settings have no prefix.
func checkVariables(environ []string) error {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TICKETING_") || clientVariables[name] || injected.MatchString(name) {
			continue
		}
		return settingFailed(fmt.Errorf("unknown variable %s: settings have no prefix, as in MAX_KEYS; see ticketing serve --help", name))
	}
	return nil
}
