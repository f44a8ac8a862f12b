//! A kernel that fails, so that a card's user can be shown to get over it. It refuses to do anything else.

KERNEL(32) fault() {
    begin();
    give_up();
}
