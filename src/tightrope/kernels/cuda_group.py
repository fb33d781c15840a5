def group_for(arms):
    return 1


def launch_shape(*a):
    raise NotImplementedError


def build_group(spec):
    raise NotImplementedError
