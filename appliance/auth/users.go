package auth

import (
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// user is somebody who may log in, as it is stored.
type user struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Password  string    `json:"password"` // its hash
	Disabled  bool      `json:"disabled,omitempty"`
	Created   time.Time `json:"created"`
	LastLogin time.Time `json:"last_login,omitzero"`
}

func (u *user) public() admin.User {
	return admin.User{Name: u.Name, Role: u.Role, Disabled: u.Disabled, Created: u.Created, LastLogin: u.LastLogin}
}

func checkUser(name string) error {
	if err := edgewise.CheckUser(name); err != nil {
		return wrong("auth.checkUser", "user", "%w", err)
	}
	return nil
}

func checkRole(name string) error {
	if _, ok := role(name); !ok {
		return wrong("auth.checkRole", "role", "role %.40q does not exist: want %s, %s or %s", name, RoleViewer, RoleOperator,
			RoleAdmin)
	}
	return nil
}

// Users lists everybody, by name.
func (a *Accounts) Users() []admin.User {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []admin.User{}
	for _, u := range sortedBy(a.users, func(u *user) string { return fold(u.Name) }) {
		list = append(list, u.public())
	}
	return list
}

// CreateUser makes a user. Errors: Invalid with Field, Exists (names that differ only in case are the same), TooLarge.
func (a *Accounts) CreateUser(n admin.UserNew) (admin.User, error) {
	const op = "auth.CreateUser"
	if err := checkUser(n.Name); err != nil {
		return admin.User{}, err
	}
	if err := checkRole(n.Role); err != nil {
		return admin.User{}, err
	}
	if err := checkPassword("password", n.Name, n.Password); err != nil {
		return admin.User{}, err
	}
	hash, err := a.newHash(n.Password)
	if err != nil {
		return admin.User{}, err
	}
	u := &user{Name: n.Name, Role: n.Role, Password: hash, Created: time.Now().UTC()}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.users[fold(n.Name)] != nil:
		return admin.User{}, edgewise.Errorf(op, edgewise.Exists, "there is a user %q already", a.users[fold(n.Name)].Name)
	case len(a.users) >= MaxUsers:
		return admin.User{}, edgewise.Errorf(op, edgewise.TooLarge, "there are %d users, which is the limit", MaxUsers)
	}
	if err := a.put(usersBucket, fold(u.Name), u); err != nil {
		return admin.User{}, err
	}
	a.users[fold(u.Name)] = u
	return u.public(), nil
}

// ChangeUser changes what is not nil. A new password or a switched-off account ends the user's sessions. Errors:
// NotFound, Invalid with Field, Conflict for the last admin.
func (a *Accounts) ChangeUser(name string, c admin.UserChange) (admin.User, error) {
	var hash string
	if c.Role != nil {
		if err := checkRole(*c.Role); err != nil {
			return admin.User{}, err
		}
	}
	if c.Password != nil {
		if err := checkPassword("password", name, *c.Password); err != nil {
			return admin.User{}, err
		}
		var err error
		if hash, err = a.newHash(*c.Password); err != nil {
			return admin.User{}, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, err := a.user(name)
	if err != nil {
		return admin.User{}, err
	}
	u := *old
	set(&u.Role, c.Role)
	set(&u.Disabled, c.Disabled)
	if hash != "" {
		u.Password = hash
	}
	if (u.Role != RoleAdmin || u.Disabled) && a.lastAdmin(old) {
		return admin.User{}, lastAdminError(old.Name)
	}
	if err := a.put(usersBucket, fold(name), &u); err != nil {
		return admin.User{}, err
	}
	a.users[fold(name)] = &u
	if hash != "" || u.Disabled {
		err = a.endSessions(u.Name, "")
	} else if u.Role != old.Role {
		for _, s := range a.sessions {
			if fold(s.User) == fold(u.Name) {
				s.life.over(changed("the role of the account"))
			}
		}
	}
	return u.public(), err
}

// DeleteUser deletes a user and ends the sessions. Errors: NotFound, Conflict for the last admin.
func (a *Accounts) DeleteUser(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	u, err := a.user(name)
	if err != nil {
		return err
	}
	if a.lastAdmin(u) {
		return lastAdminError(u.Name)
	}
	if err := a.remove(usersBucket, fold(name)); err != nil {
		return err
	}
	delete(a.users, fold(name))
	delete(a.askers, fold(name))
	return a.endSessions(u.Name, "")
}

func (a *Accounts) user(name string) (*user, error) {
	if u := a.users[fold(name)]; u != nil {
		return u, nil
	}
	return nil, edgewise.Errorf("auth.user", edgewise.NotFound, "there is no user %.128q", name)
}

// lastAdmin tells whether nobody but u could change accounts.
func (a *Accounts) lastAdmin(u *user) bool {
	if u.Role != RoleAdmin || u.Disabled {
		return false
	}
	for _, other := range a.users {
		if other != u && other.Role == RoleAdmin && !other.Disabled {
			return false
		}
	}
	return true
}

func lastAdminError(name string) error {
	return edgewise.Errorf("auth.lastAdmin", edgewise.Conflict, "user %q is the last admin: make another one first", name)
}

// ChangePassword changes one's own password, and ends one's other sessions. Errors: Unauthenticated with Field for a
// wrong old one, Busy with Retry after too many tries, Invalid with Field.
func (a *Accounts) ChangePassword(p *edgewise.Principal, c admin.PasswordChange, from Caller) error {
	if err := a.checkOwn(p, c.Old, "old", from); err != nil {
		return err
	}
	if err := checkPassword("new", p.Name, c.New); err != nil {
		return err
	}
	hash, err := a.newHash(c.New)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, err := a.user(p.Name)
	if err != nil {
		return err
	}
	u := *old
	u.Password = hash
	if err := a.put(usersBucket, fold(u.Name), &u); err != nil {
		return err
	}
	a.users[fold(u.Name)] = &u
	return a.endSessions(u.Name, p.Session)
}

// checkOwn checks the password of somebody who is logged in.
func (a *Accounts) checkOwn(p *edgewise.Principal, password, field string, from Caller) error {
	const op = "auth.checkOwn"
	if p.Kind != "person" {
		return edgewise.Errorf(op, edgewise.Invalid, "%s has no password: only people who are logged in have one", p.Actor())
	}
	if wait := a.logins.try(from.Address); wait > 0 {
		return limited("too many tries", wait)
	}
	a.mu.Lock()
	u, err := a.user(p.Name)
	hash := a.decoy
	if err == nil {
		hash = u.Password
	}
	a.mu.Unlock()
	good, err := a.verify(password, hash)
	if err != nil {
		return err
	}
	if !good {
		return edgewise.Errorf(op, edgewise.Unauthenticated, "this is not your password").WithField(field)
	}
	a.logins.forgive(from.Address)
	return nil
}
