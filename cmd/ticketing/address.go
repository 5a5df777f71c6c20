package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// resolveTimeout bounds the look-up of a host name at the start.
const resolveTimeout = 5 * time.Second

// address is a host:port setting, looked up once: what is checked is what is
// bound, whatever the name says a moment later.
type address struct {
	setting  string // how errors name it
	given    string
	addr     string // to bind; the host is an IP address or empty
	loopback bool   // only this machine can reach it
}

func (a *address) quoted() string { return strconv.Quote(a.given) }

// resolve turns the host of a setting into an address. A name counts as
// loopback when all its addresses are; an empty host means all interfaces.
func resolve(ctx context.Context, setting, given string) (*address, error) {
	a := &address{setting: setting, given: given, addr: given}
	host, port, err := net.SplitHostPort(given)
	if err != nil {
		return nil, settingFailed(&settingError{setting, a.quoted(), "allowed is host:port"})
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "":
	case err == nil:
		a.loopback = ip.Unmap().IsLoopback()
	case host == "localhost": // whatever the machine's hosts file says
		a.addr, a.loopback = net.JoinHostPort("127.0.0.1", port), true
	default:
		chosen, loopback, err := lookUp(ctx, host)
		if err != nil {
			return nil, environmentFailed(&settingError{setting, a.quoted(), err.Error()})
		}
		a.addr, a.loopback = net.JoinHostPort(chosen.String(), port), loopback
	}
	return a, nil
}

// lookUp returns the address of a host name that is bound, the first of
// version 4 if there is one, and whether all its addresses are loopback.
func lookUp(ctx context.Context, host string) (chosen netip.Addr, loopback bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, false, fmt.Errorf("the host is not known: %w", err)
	}
	loopback = true
	for i, ip := range all {
		ip = ip.Unmap()
		loopback = loopback && ip.IsLoopback()
		if i == 0 || ip.Is4() && !chosen.Is4() {
			chosen = ip
		}
	}
	return chosen, loopback, nil
}
